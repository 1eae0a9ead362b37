"""The client's side of a check through an aggregator: count, seal to the pinned key, or refuse."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.admission import answering
from flwr_kld.clients.check_memory import claims_file, use_once
from flwr_kld.clients.shown_model import keep_model
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.vector import ClientVector
from flwr_kld.messages.question import (
    ANSWER,
    QUESTION,
    SEAL_ACTION,
    SEALED,
    TERMS,
    Answer,
    Question,
)
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.sealing import SealContext, check_public

_USED = "flwr_kld.sealed"

CountMember = Callable[[int], ClientVector]
"""One member's counts, or its refusal."""
Agree = Callable[[Question, Context], CountMember]
"""Refuses a question that this node does not mean; returns what counts a member for it."""


def sender_name(node: int, member: int) -> str:
    """Name of a client, which its box is bound to."""
    return f"{node}:{member}"


def answer_sealed(app: ClientApp, agree: Agree, aggregator: bytes) -> None:
    """Register the handler that seals counts."""
    pinned = check_public(aggregator)

    @app.query(SEAL_ACTION)
    def drift_seal(message: Message, context: Context) -> Message:
        """Seal the counts of each member that is asked, or say why not."""
        try:
            question, text = asked(message.content)
            terms = ReleaseTerms.from_json(text)
            if terms.aggregator != pinned.hex():
                raise QueryRefused("WrongAggregator: the key to seal to is not the one pinned here")
            terms.hold_to(question)
            keep_model(message.content, context)
            count = agree(question, context)
            # Two boxes of one client would count twice in the sum.
            use_once(context, _USED, question.check, claims_file(context))
        except QueryRefused as error:
            return answered(message, Answer("", "", [], [str(error)]), ConfigRecord())
        answer, boxes = Answer(question.check, question.plan, [], []), ConfigRecord()
        for member in dict.fromkeys(question.members):
            with answering(answer, member):
                counts = count(member)
                sender = sender_name(context.node_id, member)
                sealed_for = SealContext.of(question, terms.to_json(), context.run_id, sender)
                boxes[str(member)] = counts.sealed(pinned, sealed_for.to_bytes())
        return answered(message, answer, boxes)


def asked(content: RecordDict) -> tuple[Question, str]:
    """Read the question, and the text of the terms to seal for; empty where there is none."""
    question, terms = content.get(QUESTION), content.get(TERMS)
    text = terms.get(TERMS) if isinstance(terms, ConfigRecord) else None
    return (
        Question.from_config(question if isinstance(question, ConfigRecord) else {}),
        text if isinstance(text, str) else "",
    )


def answered(message: Message, answer: Answer, sealed: ConfigRecord) -> Message:
    """Return the reply: the answer, and what is sealed, by member."""
    content = RecordDict({ANSWER: ConfigRecord(answer.to_config()), SEALED: sealed})
    return Message(content, reply_to=message)
