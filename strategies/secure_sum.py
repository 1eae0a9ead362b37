"""`SecureSum`: secure aggregation as a check's aggregation, with the roster it runs over."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Participant, require_clients
from flwr_kld.common.errors import BadSignature, CheckFailed, NobodyAnswered, SecureSumError
from flwr_kld.common.identity import claim_text
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import ClearSum, ShareSum
from flwr_kld.secure_sums import Roster
from flwr_kld.secure_sums.messages import Deliveries, decode
from flwr_kld.secure_sums.server import SumResult, SumServer
from flwr_kld.secure_sums.session import Session
from flwr_kld.strategies.exchange import (
    NO_REPLY,
    Collected,
    CountExchange,
    by_reason,
    failure,
    first_replies,
    refusal,
    refusals,
    replies,
)
from flwr_kld.trust.envelopes import (
    ANSWER,
    CHALLENGE,
    CHALLENGED,
    IDENTITY_ACTION,
    PHASE,
    ROSTER,
    SUM_ACTION,
    Answer,
    Signers,
)

_MOST_RECORDS = 2**32
"""Records of a whole cohort in one cell that a sum with noise shares has room for."""

_STRANGER = "its name and key are not in the server's roster"
_TAKEN = "it claims another client's name or key"


@dataclass
class SecureSum:
    """Bonawitz et al. 2017 on the sparse graph of Bell et al. 2020: `flwr_kld.secure_sums`.

    Parameters
    ----------
    roster : Roster, optional
        The pinned list of clients' names and public keys. By default the server believes what
        nodes say when they are first asked: for demonstrations only, since a server that lies from
        the start could invent clients. Clients decide for themselves whom they believe.
    """

    roster: Roster | None = None
    _names: dict[Participant, str] = field(default_factory=dict, repr=False)
    _refused: dict[Participant, str] = field(default_factory=dict, repr=False)
    _first_use: Roster | None = field(default=None, repr=False)

    name = "secure-sum"
    hides_parts = True
    enforces_limits = False
    adds_noise = False

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody: no node has another role."""
        return present

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Learn under which names the cohort signs, of those who have not said so yet.

        Raises `CheckFailed` if too few say so.
        """
        self._learn(chosen, grid, timeout)
        self._able(chosen, least)

    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Run one sum over the cohort.

        Raises `CheckFailed` if fewer than `least`, or than the protocol needs, are left at any
        phase; there is no value then; `ValueError` if the sum could leave the ring; nothing has
        been sent.
        """
        terms, cohort = exchange.terms, len(exchange.chosen)
        layout, share = exchange.plan.layout, terms.share()
        if share is not None:
            counts = _MOST_RECORDS * share.grid * int(layout.steps.max())
            if counts + cohort * share.share.reach >= 2**63:
                raise ValueError("sums could leave their 64 bits: raise epsilon, or ask fewer")
        if not any(p in self._names for p in exchange.chosen):
            self._learn(exchange.chosen, exchange.grid, exchange.timeout)
        roster = self._listed
        people, refused = self._able(exchange.chosen, least)
        # A pinned list is known to clients: some 100 bytes a client are not sent to each of them.
        shown = roster.to_json() if self.roster is None else roster.fingerprint.hex()
        run = SumRun(exchange, people)
        run.heard.update(refused)
        try:
            session = Session.open(
                roster,
                list(people),
                check=exchange.check,
                terms=terms.fingerprint,
                length=terms.length,
                min_clients=least,
            )
            result = run.sum(SumServer(session, roster), shown)
        except SecureSumError as error:
            why = "".join(f"; {n}: {reason}" for reason, n in by_reason(run.heard).items())
            words = f"the secure sum was given up: {error}{why}"
            if not run.may_have_sent:
                raise NobodyAnswered(f"{words}; no client sent numbers") from None
            raise CheckFailed(words) from None
        clients = len(result.survivors)
        total: ClearSum | ShareSum
        if share is None:
            total = ClearSum.of_ring(
                result.total, layout, clients=clients, most_records=terms.most_records
            )
        else:
            total = ShareSum(result.total, layout, share, clients=clients, counted=terms.counted)
        in_the_sum = {people[name] for name in result.survivors}
        return Collected(
            total,
            {p: run.heard.get(p, NO_REPLY) for p in exchange.chosen if p not in in_the_sum},
            (run.bytes_down / cohort, run.bytes_up / cohort),
        )

    @property
    def _listed(self) -> Roster:
        """The list of clients."""
        if (roster := self.roster or self._first_use) is not None:
            return roster
        why = "; ".join(f"{n}: {reason}" for reason, n in by_reason(self._refused).items())
        raise CheckFailed(
            "no client takes part in secure sums: "
            + (why or "give answer_drift_queries(…, secure_sum=…)")
        )

    def _able(
        self, chosen: list[Participant], least: int
    ) -> tuple[dict[str, Participant], dict[Participant, str]]:
        """Return who of a cohort can take part, by name, and why others cannot.

        Raises `CheckFailed` if too few can.
        """
        asked = set(chosen)
        people, why = dict[str, Participant](), dict[Participant, str]()
        for participant, name in self._names.items():
            if participant not in asked:
                continue
            if name in people:  # who came back under another node id was heard last
                why[people[name]] = _TAKEN
            people[name] = participant
        why |= {p: reason for p, reason in self._refused.items() if p in asked}
        require_clients(len(people), max(least, 2), "can take part in a secure sum", by_reason(why))
        return people, why

    def _learn(self, chosen: list[Participant], grid: Grid, timeout: float) -> Roster:
        """Learn the names of participants that have not said theirs; return the list of clients."""
        self._names = dict(self._names)
        unknown = [p for p in chosen if p not in self._names]
        found, self._refused = _signers(unknown, grid, timeout)
        known = self.roster or self._first_use
        keys = {} if known is None else dict(zip(known.names, known.keys, strict=True))
        names = {key: name for name, key in keys.items()}
        for participant, name, key in found:
            if self.roster is not None and keys.get(name) != key:
                self._refused[participant] = _STRANGER
                continue
            if (keys.get(name, key), names.get(key, name)) != (key, name):
                self._refused[participant] = _TAKEN
                continue
            self._names[participant] = name
            keys[name], names[key] = key, name
        if found and self.roster is None:
            self._first_use = Roster(keys)
        return self._listed


def _signers(
    unknown: list[Participant], grid: Grid, timeout: float
) -> tuple[list[tuple[Participant, str, bytes]], dict[Participant, str]]:
    """Ask nodes with unknown participants under which names and keys those sign.

    Names and public keys are no secret, so each signs a challenge.
    """
    asked: dict[int, list[Participant]] = defaultdict(list)
    for participant in unknown:
        asked[participant.node].append(participant)
    found, refused = [], dict[Participant, str]()
    challenge = os.urandom(CHALLENGED)
    told_all = {CHALLENGE: ConfigRecord({CHALLENGE: challenge})}
    for node, reply in first_replies(grid, sorted(asked), IDENTITY_ACTION, timeout, told_all):
        try:
            told = Signers.from_config(reply.content.get(ANSWER) if reply.has_content() else None)
        except InvalidReply:
            continue  # a node that cannot say how it signs is not in the cohort
        for member, (name, key, proof) in told.signers.items():
            participant, public = Participant(node, int(member)), bytes.fromhex(key)
            signed = claim_text(challenge, str(participant), name)
            try:
                Roster({name: public}).verify(0, bytes.fromhex(proof), signed)
            except BadSignature:
                refused[participant] = _TAKEN
            else:
                found.append((participant, name, public))
        silent = [p for p in asked[node] if str(p.member) not in told.signers]
        refused.update(zip(silent, map(refusal, told.refused), strict=False))
    return found, refused


class SumRun:
    """One sum over the participants of an exchange."""

    def __init__(self, exchange: CountExchange, people: Mapping[str, Participant]) -> None:
        self._exchange, self._people = exchange, people
        self.heard: dict[Participant, str] = {}
        """What first went wrong with a participant; whether it is in the sum, the result says."""
        self.may_have_sent: set[Participant] = set()
        """Who was asked for its masked numbers, and has not replied that it refuses."""
        self._masking = False
        self.bytes_down = self.bytes_up = 0

    def sum(self, server: SumServer, roster: str) -> SumResult:
        """Run all phases, over clients of a roster."""
        opening: ConfigRecord | None = ConfigRecord({ROSTER: roster})
        requests = dict.fromkeys(range(server.session.size), server.session.to_bytes())
        while requests:
            asked = {self._people[server.name(i)]: (i, text) for i, text in requests.items()}
            for participant, payload in self._ask(asked, opening):
                try:
                    server.receive(decode(payload), server.name(asked[participant][0]))
                except SecureSumError as error:
                    why = f"invalid reply: {type(error).__name__}: {error}"
                    self.heard.setdefault(participant, why)
            opening, following = None, server.advance()
            self._masking = any(isinstance(one, Deliveries) for one in following.values())
            if self._masking:
                self.may_have_sent = {self._people[server.name(i)] for i in following}
            requests = {i: request.to_bytes() for i, request in following.items()}
        return server.result()

    def _ask(
        self, asked: Mapping[Participant, tuple[int, bytes]], opening: ConfigRecord | None
    ) -> Iterator[tuple[Participant, bytes]]:
        """Send each participant its request, by node; yield the answers."""
        by_node: dict[int, list[Participant]] = defaultdict(list)
        for participant in asked:
            by_node[participant.node].append(participant)
        messages = []
        for node, members in by_node.items():
            payloads = ConfigRecord({str(p.member): asked[p][1] for p in members})
            content = RecordDict({PHASE: payloads})
            if opening is not None:
                content = self._exchange.opening({PHASE: payloads, ROSTER: opening})
            self.bytes_down += sum(record.count_bytes() for record in content.values())
            messages.append(self._exchange.message(content, node, SUM_ACTION))
        timeout = self._exchange.timeout
        for reply in replies(self._exchange.grid, messages, timeout):
            node = reply.metadata.src_node_id
            members = by_node.get(node, [])
            if reply.has_error():
                self._note(dict.fromkeys(members, failure(reply.error)))
                continue
            yield from self._answers(members, reply.content)

    def _note(self, reasons: Mapping[Participant, str]) -> None:
        for participant, reason in reasons.items():
            self.heard.setdefault(participant, reason)

    def _answers(
        self, members: list[Participant], content: RecordDict
    ) -> Iterator[tuple[Participant, bytes]]:
        payloads = content.get(PHASE) or ConfigRecord()
        try:
            answer = Answer.from_config(content.get(ANSWER))
        except InvalidReply as error:
            self._note(dict.fromkeys(members, f"invalid reply: {error}"))
            return
        refused = refusals(members, answer)
        self._note(refused)
        for participant in members:
            payload = payloads.get(str(participant.member))
            if isinstance(payload, bytes):
                self.bytes_up += len(payload)
                yield participant, payload
            elif self._masking and participant in refused:
                self.may_have_sent.discard(participant)
