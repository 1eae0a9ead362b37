"""The client's handlers of drift checks: count own records by cell, or refuse.

Whatever a handler raises, Flower sends to the server as text. So every error is caught here, and
only sentences that are free of data values leave the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld.ask.period import of_period
from flwr_kld.clients.admission import Gate, reason_of, require_claim
from flwr_kld.clients.answers import refuse, reply, reply_record
from flwr_kld.clients.check_memory import claims_file, use_once
from flwr_kld.clients.deadline import loads_in_time
from flwr_kld.clients.node_config import is_aggregator
from flwr_kld.clients.own_records import Loader, OwnRecords, Records
from flwr_kld.clients.returned_report import await_report, take_report
from flwr_kld.clients.shown_model import model_of, require_model, store_model
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import Held, SumVector
from flwr_kld.table.base import Domain
from flwr_kld.trust.envelopes import (
    DRIFT_ACTION,
    HOSTED_ACTION,
    REPORT_ACTION,
    Answer,
    Hosted,
    asked,
)
from flwr_kld.trust.terms import Terms

if TYPE_CHECKING:
    from flwr_kld.clients.channels import Channel, Rows, Send
    from flwr_kld.clients.sum_members import SumMembers

_USED = "flwr_kld.answered"
_MEMBERS, _RECORDS = 256, 2**12
"""Members that are counted together, and records from which on one is counted by itself."""


def answer_drift_queries(
    app: ClientApp,
    records: Callable[..., Any],
    domain: Domain,
    *,
    record_ids: Callable[[Context], Any] | None = None,
    secure_sum: SumMembers | None = None,
    aggregator: bytes | None = None,
    aggregators: tuple[bytes, bytes] | None = None,
    with_model: bool = False,
    discover: Set[str] = frozenset(),
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
    record_ids : Callable[[Context], Any], optional
        One integer, string, UUID or date for each record that `records` loads, the same in every
        check for as long as the record exists. Standing sessions need them: rows of one id are one
        record there, which counts as the first of them, and so are all rows whose id is missing. By
        default the node takes part in none.
    secure_sum : SumMembers, optional
        The node's signing key and whom it believes, for checks over a secure sum: `PinnedByNode` on
        a deployment. By default the node takes part in none.
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
        refusal would leak them.
    discover : set of str
        Columns whose unlisted labels may be asked for, as `LabelDiscovery` does; by default none.
        Whoever sees this client's exact counts, under `Trusted` the server, can then read any text
        in them, also one that only one record has.
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
        record_ids=None if record_ids is None else lambda context, _: record_ids(context),
        secure_sum=secure_sum,
        aggregator=aggregator,
        aggregators=aggregators,
        discover=discover,
    )


def host_drift_queries(
    app: ClientApp,
    records: Loader,
    hosted: Callable[[Context], Iterable[int]],
    domain: Callable[[Context], Domain],
    record_ids: Loader | None = None,
    secure_sum: SumMembers | None = None,
    aggregator: bytes | None = None,
    aggregators: tuple[bytes, bytes] | None = None,
    discover: Set[str] = frozenset(),
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
        members are to be distinguished across the federation.
    domain : Callable[[Context], Domain]
        What the records of this node's members mean.
    """
    instance("app", app, ClientApp, "the node's ClientApp")
    for name, call in (("records", records), ("hosted", hosted), ("domain", domain)):
        instance(name, call, Callable, "a function")
    instance("discover", discover, Set, "a set of columns, such as {'job'}")
    node = DriftNode(OwnRecords(records, record_ids), hosted, domain, discover)
    app.query(DRIFT_ACTION)(node.answer)
    app.query(HOSTED_ACTION)(node.name_clients)
    app.query(REPORT_ACTION)(take_report)
    # Imported as they are needed: an app starts anew for every message.
    if secure_sum is not None:
        from flwr_kld.clients.secure_sum import answer_secure_sums
        from flwr_kld.clients.sum_members import SumMembers

        instance("secure_sum", secure_sum, SumMembers, "a node's keys, such as PinnedByNode()")
        answer_secure_sums(app, node.require_summable, node.summand, node.present, secure_sum)
    if aggregator is not None:
        from flwr_kld.clients.channels import sealed
        from flwr_kld.trust.sealing import check_public

        node.channels["trusted-aggregator"] = (check_public(aggregator).hex(),), sealed
    if aggregators is not None:
        from flwr_kld.clients.channels import split_by
        from flwr_kld.trust.sealing import check_pair

        if secure_sum is None:
            raise ValueError("aggregators= needs secure_sum=, whose key signs: PinnedByNode()")
        pair = tuple(key.hex() for key in check_pair(aggregators))
        node.channels["two-aggregators"] = pair, split_by(secure_sum)


class DriftNode:
    """A node that answers drift checks for the clients that it hosts.

    Parameters
    ----------
    own : OwnRecords
        Loads and encodes the records of a client.
    hosted : Callable[[Context], Iterable[int]]
        The clients on this node.
    domain : Callable[[Context], Domain]
        What their records mean.
    discover : set of str
        Columns whose unlisted labels may be asked for.

    Attributes
    ----------
    channels : dict
        By who adds the noise: the aggregators' keys that are pinned here, and the way to them.
    """

    def __init__(
        self,
        own: OwnRecords,
        hosted: Callable[[Context], Iterable[int]],
        domain: Callable[[Context], Domain],
        discover: Set[str],
    ) -> None:
        self._own, self._hosted, self._domain, self._discover = own, hosted, domain, discover
        self.channels: dict[str, tuple[tuple[str, ...], Channel]] = {"trusted": ((), _in_the_clear)}

    def present(self, context: Context) -> frozenset[int]:
        """Return the clients on this node; an aggregator has none."""
        return frozenset(map(int, () if is_aggregator(context) else self._hosted(context)))

    def name_clients(self, message: Message, context: Context) -> Message:
        """Answer which clients this node hosts."""
        return reply_record(message, Hosted(tuple(sorted(self.present(context)))).to_config())

    @loads_in_time
    def answer(self, message: Message, context: Context) -> Message:
        """Answer a check with the numbers of each client that is asked, or with why not."""
        try:
            terms, members = asked(message.content)
            store_model(message.content, context)
            (cell_of, domain), here = self._cells(terms, context), self.present(context)
            require_claim(terms, *self.channels)
            pinned, channel = self.channels[terms.trust]
            if terms.aggregators != pinned:
                raise QueryRefused("WrongAggregator: the key to seal to is not the one pinned here")
            gate = Gate(context, terms)
            if pinned:  # two boxes of one client would count twice in the sum
                use_once(context, _USED, terms.check, claims_file(context))
        except QueryRefused as error:
            return refuse(message, str(error))
        answers = _Answers(terms, cell_of)
        last_nights: dict[int, int] = {}
        with of_period(terms.period):
            for member in members:
                try:
                    if member not in here:
                        raise QueryRefused("this node does not host the client that is asked")
                    send = channel(terms, context, member)
                    if terms.night is None:
                        gate.admit(member)
                    else:
                        last_nights[member] = gate.last_night(member)
                    answers.load(member, self._own.load(context, member, domain, terms), send)
                except Exception as error:
                    answers.refused[member] = reason_of(error)
        other_night = answers.finish(context, gate, last_nights)
        if answers.numbers:
            await_report(terms, context)
        reasons = [answers.refused[member] for member in members if member in answers.refused]
        answer = Answer(terms.fingerprint, list(answers.numbers), reasons, other_night)
        return reply(message, answer, answers.numbers)

    def require_summable(self, terms: Terms, context: Context) -> None:
        """Refuse terms of which a secure sum is none."""
        self._cells(terms, context)
        if terms.unlisted_labels is not None:
            raise QueryRefused("a secure sum cannot add up labels")
        if terms.night is not None:
            raise QueryRefused("a secure sum is of no standing session: clients have no name in it")

    def summand(self, context: Context, member: int, terms: Terms) -> SumVector:
        """Return a client's numbers, with its noise share, for a secure sum."""
        (cell_of, domain), share = self._cells(terms, context), terms.share()
        with of_period(terms.period):
            loaded = self._own.load(context, member, domain, terms)
        rows = Records.counted([loaded], terms, cell_of)
        return rows.summand(0, share, SystemBits(), counted=terms.counted)

    def _cells(self, terms: Terms, context: Context) -> tuple[NDArray[np.int32], Domain]:
        """Refuse unless server and client mean the same thing.

        Return the cell of each symbol, and the domain that is counted.
        """
        require_model(terms, context)
        labels, domain = terms.unlisted_labels, self._domain(context)
        if labels is not None and labels.column not in self._discover:
            raise QueryRefused(
                "this client's app lets nobody ask for the unlisted labels of that column: "
                "answer_drift_queries(…, discover={…}) names those that may be"
            )
        if terms.domain != domain.fingerprint:
            raise QueryRefused(
                "the server's domain is not this client's: compare both domain specs"
            )
        counted = terms.over(domain)
        if terms.columns != counted.per_record:
            raise QueryRefused("the server's number of columns is not the domain's")
        try:
            return terms.cell_of(counted), counted
        except ValueError as error:
            raise QueryRefused(str(error)) from None


class _Answers:
    """What a node's clients answer to one message: numbers, or why not."""

    def __init__(self, terms: Terms, cell_of: NDArray[np.int32]) -> None:
        self.numbers, self.refused = dict[int, Held[bytes]](), dict[int, str]()
        self._terms, self._cell_of = terms, cell_of
        self._loaded: dict[int, tuple[Records, Send]] = {}

    def load(self, member: int, records: Records, send: Send) -> None:
        """Take a client's records; count as soon as enough are there, unless of a session."""
        self._loaded[member] = records, send
        if self._terms.night is not None:
            return
        if len(records) > _RECORDS:
            self._count({member: b""})
        elif len(self._loaded) == _MEMBERS:
            self._count(dict.fromkeys(self._loaded, b""))

    def finish(self, context: Context, gate: Gate, last_nights: dict[int, int]) -> int:
        """Count the rest; return another night that a client has counted, or 0."""
        tokens, other_night = dict.fromkeys(self._loaded, b""), 0
        if self._terms.night is not None and self._loaded:
            # Imported here: most checks are of no session.
            from flwr_kld.clients.standing import session_tokens

            mine = {member: records for member, (records, _) in self._loaded.items()}
            tokens = {}
            try:
                tokens, other_night = session_tokens(
                    context, self._terms, gate, mine, last_nights, self.refused
                )
            except Exception as error:
                self.refused |= dict.fromkeys(mine, reason_of(error))
        rest = [*tokens.items()]
        for first in range(0, len(rest), _MEMBERS):
            self._count(dict(rest[first : first + _MEMBERS]))
        return other_night

    def _count(self, tokens: Mapping[int, bytes]) -> None:
        """Count loaded clients together, each with the token of its night."""
        try:
            some = [self._loaded.pop(member) for member in tokens]
            records = [own for own, _ in some]
            rows: Rows
            if self._terms.unlisted_labels is not None:
                rows = Records.labels(records, self._terms)
            else:
                rows = Records.counted(records, self._terms, self._cell_of)
            for row, (member, token) in enumerate(tokens.items()):
                try:
                    self.numbers[member] = Held(some[row][1](rows, row, token))
                except Exception as error:
                    self.refused[member] = reason_of(error)
        except Exception as error:
            self.refused |= dict.fromkeys(tokens, reason_of(error))


def _in_the_clear(terms: Terms, context: Context, member: int) -> Send:
    """Send exact numbers to a server that may see them."""
    return lambda rows, row, token: rows.to_wire(row, token)
