"""The client's side of a drift check: count one's own records by cell, or refuse.

Whatever a handler raises, Flower sends to the server as text. So every error is caught here, and
only sentences that are free of data values leave the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld.clients.admission import admit, answering, hold_to_channel
from flwr_kld.clients.own_records import Loader, OwnRecords, RecordSecret
from flwr_kld.clients.record_secret import record_secret
from flwr_kld.clients.role import is_aggregator
from flwr_kld.clients.shown_model import hold_to_model, keep_model, model_of
from flwr_kld.domain.base import Domain
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClientVector, SumVector
from flwr_kld.messages.question import (
    ANSWER,
    COUNTS,
    COUNTS_FORMAT,
    DRIFT_ACTION,
    HOSTED_ACTION,
    QUESTION,
    Answer,
    Hosted,
    Question,
)
from flwr_kld.messages.release_terms import TRUST as TRUSTED
from flwr_kld.messages.split_terms import TRUST as TWO
from flwr_kld.messages.sum_terms import SumTerms
from flwr_kld.reference import Reference

if TYPE_CHECKING:
    from flwr_kld.clients.sealed_counts import CountMember
    from flwr_kld.clients.sum_members import SumMembers


def answer_drift_queries(
    app: ClientApp,
    records: Callable[..., Any],
    domain: Domain,
    *,
    reference: Reference | str | None = None,
    record_ids: Callable[[Context], Any] | None = None,
    secure_sum: SumMembers | None = None,
    aggregator: bytes | None = None,
    aggregators: tuple[bytes, bytes] | None = None,
    with_model: bool = False,
) -> None:
    """Let an existing ClientApp answer drift checks beside whatever else it does.

    Parameters
    ----------
    app : ClientApp
        The node's app; its train and evaluate handlers are left alone.
    records : Callable[[Context], Any] or Callable[[Context, ArrayRecord], Any]
        Loads this node's raw records, in a form that ``domain.encode`` takes. Called anew for
        each check.
    domain : Domain
        What the records mean. A server with another domain is refused.
    reference : Reference or str, optional
        The only reference (or its fingerprint) that this client agrees to be compared with.
        By default any reference over `domain`.
    record_ids : Callable[[Context], Any], optional
        One integer or string for each record that `records` loads, the same in every check for as
        long as the record exists. By default its position: enough where records are only ever
        appended. Checks over buckets of records (few clients) go by these ids, salted with a secret
        of the node: that of its guard's key, or of the file ``drift-salt`` in its node config,
        which is made on first use. Without either, a node draws one for each run, and refuses
        checks of a rotation over buckets, which have to last longer.
    secure_sum : SumMembers, optional
        The node's signing key and whom it believes, for checks over a secure sum: `Pinned` on a
        deployment. By default the node takes part in none.
    aggregator : bytes, optional
        Public key of the aggregator that this client trusts; it seals its counts to no other. By
        default the node takes part in no check through an aggregator. The same app may also be
        given to `aggregate_drift_checks`: each node's config says which of the two it is.
    aggregators : tuple[bytes, bytes], optional
        Public keys of the two aggregators of `TwoAggregators`, which this client trusts not to
        collude; it signs what it seals to them with its key of `secure_sum`, which is required. By
        default the node takes part in no check through two aggregators.
    with_model : bool
        Whether `records` takes the server's model as a second argument, an ``ArrayRecord``, for
        columns that are its predictions. Checks that show none are refused then. The model is the
        server's choice: what is computed with it must not raise for some records only, as a
        refusal would tell of them.
    """
    instance("domain", domain, Domain, "the Domain of the records, such as reference.domain")
    instance("with_model", with_model, bool, "True or False")
    instance("records", records, Callable, "a function that loads records, such as node_records")
    if record_ids is not None:
        instance("record_ids", record_ids, Callable, "a function that loads an id for each record")

    def load(context: Context, _: int) -> Any:
        return records(context, model_of(context)) if with_model else records(context)

    host_drift_queries(
        app,
        records=load,
        hosted=lambda _: [0],
        domain=lambda _: domain,
        reference=reference,
        record_ids=None if record_ids is None else lambda context, _: record_ids(context),
        secure_sum=secure_sum,
        aggregator=aggregator,
        aggregators=aggregators,
    )


def host_drift_queries(
    app: ClientApp,
    records: Loader,
    hosted: Callable[[Context], Iterable[int]],
    domain: Callable[[Context], Domain],
    reference: Reference | str | None = None,
    record_ids: Loader | None = None,
    secure_sum: SumMembers | None = None,
    aggregator: bytes | None = None,
    aggregators: tuple[bytes, bytes] | None = None,
    secret: RecordSecret = record_secret,
) -> None:
    """Answer for many virtual clients that one simulated node hosts.

    Each member is sampled, counted and accounted for as a client of its own. What is not listed
    here is as in `answer_drift_queries`.

    Parameters
    ----------
    records : Callable[[Context, int], Any]
        Loads the raw records of one member.
    hosted : Callable[[Context], Iterable[int]]
        The members on this node, called once a message: numbers that differ between nodes if
        members are to be told apart across the federation.
    domain : Callable[[Context], Domain]
        What the records of this node's members mean.
    secret : Callable[[Context, int, Selection], bytes], optional
        Simulations only: what a member's record ids are salted with, for a simulation that has to
        know which records are in which bucket. By default the node's own secret.
    """
    instance("app", app, ClientApp, "the node's ClientApp")
    for name, call in (("records", records), ("hosted", hosted), ("domain", domain)):
        instance(name, call, Callable, "a function")
    if reference is not None:
        instance("reference", reference, Reference | str, "a Reference or its fingerprint")
    agreed = reference.fingerprint if isinstance(reference, Reference) else reference
    own = OwnRecords(records, domain, record_ids, secret)

    def present(context: Context) -> frozenset[int]:
        here = () if is_aggregator(context) else hosted(context)
        return frozenset(map(int, here))

    def meant(question: Question, context: Context) -> NDArray[np.int32]:
        hold_to_model(question, context)
        return _agree(question, domain(context), agreed)

    def agree_to_count(trust: str, question: Question, context: Context) -> CountMember:
        hold_to_channel(question, None, trust)
        cell_of, here = meant(question, context), present(context)

        def count(member: int) -> ClientVector:
            if member not in here:
                raise QueryRefused("this node does not host the client that is asked")
            admit(context, question, member)
            return own.count(context, member, question, cell_of)

        return count

    @app.query(DRIFT_ACTION)
    def drift(message: Message, context: Context) -> Message:
        """Count, or say why not."""
        try:
            record = message.content.get(QUESTION)
            question = Question.from_config(record if isinstance(record, ConfigRecord) else {})
            keep_model(message.content, context)
            count = agree_to_count("trusted", question, context)
        except QueryRefused as error:
            return _reply(message, Answer("", "", [], [str(error)]), [], 0)
        answer = Answer(question.check, question.plan, [], [])
        rows = []
        for member in question.members:
            with answering(answer, member):
                rows.append(count(member))
        return _reply(message, answer, rows, question.length)

    @app.query(HOSTED_ACTION)
    def drift_hosted(message: Message, context: Context) -> Message:
        """Say which clients this node hosts."""
        content = RecordDict(
            {ANSWER: ConfigRecord(Hosted(tuple(sorted(present(context)))).to_config())}
        )
        return Message(content, reply_to=message)

    def agree(terms: SumTerms, context: Context) -> None:
        meant(terms.question, context)
        trust = "trusted" if terms.noise is None else "distributed"
        hold_to_channel(terms.question, terms.noise, trust)
        hidden = not terms.question.guarantee.total_is_public
        if terms.count_records and (terms.question.adds_scores or (hidden and terms.noise)):
            raise QueryRefused("the server asks for the number of records, which has to be hidden")

    def contribution(context: Context, member: int, terms: SumTerms) -> SumVector:
        cell_of = meant(terms.question, context)
        noise, bits = terms.noise, SystemBits()
        clip = None if noise is None else noise.clipped
        columns, most = terms.question.columns, LARGEST_CLIENT
        if clip is not None and columns > 1:  # counts of a row are clipped together
            most, clip = clip.bound, None
        share = None if noise is None else noise.event()
        counts = own.count(context, member, terms.question, cell_of, most=most)
        return counts.summand(share, bits, clip=clip, counted=terms.count_records, columns=columns)

    # Imported as they are needed: an app starts anew for every message.
    if secure_sum is not None:
        from flwr_kld.clients.secure_sum import answer_secure_sums
        from flwr_kld.clients.sum_members import SumMembers

        instance("secure_sum", secure_sum, SumMembers, "a node's keys, such as PinnedByNode()")
        answer_secure_sums(app, agree, contribution, present, secure_sum)
    if aggregator is not None:
        from flwr_kld.clients.sealed_counts import answer_sealed

        answer_sealed(app, partial(agree_to_count, TRUSTED), aggregator)
    if aggregators is not None:
        if secure_sum is None:
            raise ValueError("aggregators= needs secure_sum=, whose key signs: PinnedByNode()")
        from flwr_kld.clients.split_counts import answer_split

        answer_split(app, partial(agree_to_count, TWO), secure_sum, aggregators)


def _agree(question: Question, domain: Domain, agreed: str | None) -> NDArray[np.int32]:
    """Refuse unless server and client mean the same thing; return the cell of each symbol."""
    if question.domain != domain.fingerprint:
        raise QueryRefused("the server's domain is not this client's: compare both domain specs")
    if question.columns != domain.per_record:
        raise QueryRefused("the server's number of columns is not the domain's")
    if agreed is not None and question.reference != agreed:
        raise QueryRefused("the server's reference is not the one that this client agreed to")
    try:
        return question.cell_of(domain.sizes)
    except ValueError as error:
        raise QueryRefused(str(error)) from None


def _reply(message: Message, answer: Answer, rows: list[ClientVector], cells: int) -> Message:
    content = RecordDict({ANSWER: ConfigRecord(answer.to_config())})
    if rows:
        shape, joined = (len(rows), cells), b"".join
        content[COUNTS] = ArrayRecord(
            {COUNTS: Array("int32", shape, COUNTS_FORMAT, joined(row.to_wire() for row in rows))}
        )
    return Message(content, reply_to=message)
