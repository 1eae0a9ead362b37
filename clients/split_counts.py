"""The client's side of a check through two aggregators: count, split, seal and sign, or refuse."""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from flwr_kld.clients.admission import answering
from flwr_kld.clients.check_memory import claims_file, use_once
from flwr_kld.clients.sealed_counts import Agree, answered, asked
from flwr_kld.clients.shown_model import keep_model
from flwr_kld.clients.sum_members import SumMembers
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.law import SystemBits
from flwr_kld.messages.question import SPLIT_ACTION, Answer
from flwr_kld.messages.sealing import SealContext
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.sums.errors import SecureSumError
from flwr_kld.sums.two_aggregators import split
from flwr_kld.trust.two_aggregators import check_pair

_USED = "flwr_kld.split"


def answer_split(
    app: ClientApp,
    agree: Agree,
    members: SumMembers,
    aggregators: tuple[bytes, bytes],
) -> None:
    """Register the handler that splits counts between two aggregators."""
    first, second = (key.hex() for key in check_pair(aggregators))

    @app.query(SPLIT_ACTION)
    def drift_split(message: Message, context: Context) -> Message:
        """Split the counts of each member that is asked, or say why not."""
        try:
            question, text = asked(message.content)
            terms = SplitTerms.from_json(text)
            if (terms.seeds, terms.vectors) != (first, second):
                raise QueryRefused("WrongAggregator: the keys to seal to are not those pinned here")
            terms.hold_to(question)
            keep_model(message.content, context)
            count = agree(question, context)
            # Two parcels of one client would count twice in the sum.
            use_once(context, _USED, question.check, claims_file(context))
        except QueryRefused as error:
            return answered(message, Answer("", "", [], [str(error)]), ConfigRecord())
        answer, parcels = Answer(question.check, question.plan, [], []), ConfigRecord()
        for member in dict.fromkeys(question.members):
            with answering(answer, member):
                try:
                    name, key = members.name(context, member), members.identity(context, member)
                except SecureSumError as error:
                    raise QueryRefused(str(error)) from None
                sealed_for = SealContext.of(question, terms.to_json(), context.run_id, name)
                counts = count(member)
                vector = counts.summand(
                    None, SystemBits(), counted=terms.counted, columns=question.columns
                )
                parcels[str(member)] = split(vector, terms, key, sealed_for).to_bytes()
        return answered(message, answer, parcels)
