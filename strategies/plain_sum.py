"""Ask a cohort for its counts and add them up in the clear, at a trusted server."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import (
    LARGEST_CLIENT,
    ClearSum,
    ClientCounts,
    ClientVector,
    Held,
    vector_from_wire,
)
from flwr_kld.messages.question import (
    ANSWER,
    COUNTS,
    COUNTS_FORMAT,
    DRIFT_ACTION,
    QUESTION,
    Answer,
)
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.report.one_client import some_of
from flwr_kld.strategies.exchange import (
    Collected,
    Exchange,
    failure,
    missing,
    refusal,
    refusals,
)
from flwr_kld.strategies.replies import replies

logger = logging.getLogger("flwr_kld")

NO_RECORDS = "it has no records"
_TYPE = f"query.{DRIFT_ACTION}"


class PlainSum:
    """The server receives each client's exact counts and adds them up."""

    name = "plain-sum"
    hides_parts = False
    """Whether the server sees sums only."""
    holds_to_limits = True
    """Whether somebody sees each client's numbers, and holds them to what one may answer."""
    adds_noise = False
    """Whether sums reach the server with their noise."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody: no node has another role."""
        return present

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Need nobody but the cohort."""

    def collect(self, exchange: Exchange, noise: NoiseTerms | None, least: int) -> Collected:
        """Send the question, wait, and sum every valid row of counts.

        Clients that do not reply in time, fail, refuse, or send something that is not an answer
        are left out and counted by reason; nothing they do can stop the others.

        Parameters
        ----------
        noise : None
            Clients cannot add noise here.
        least : int
            Checked by the caller: the server sees the survivors.
        """
        asked: dict[int, list[int]] = defaultdict(list)
        for participant in exchange.chosen:
            asked[participant.node].append(participant.member)
        # Nodes that are asked the same share one record, as in Flower's own strategies.
        contents = {
            members: exchange.opening(
                {QUESTION: ConfigRecord(exchange.question(list(members)).to_config())}
            )
            for members in set(map(tuple, asked.values()))
        }
        messages = [
            Message(contents[tuple(m)], node, _TYPE, ttl=exchange.timeout, group_id=exchange.group)
            for node, m in asked.items()
        ]
        down = sum(r.count_bytes() for m in asked.values() for r in contents[tuple(m)].values())
        taken = _Taken(asked, exchange)
        received = replies(exchange.grid, messages, exchange.timeout)
        clear = ClearSum.of_clients(
            taken.read(received),
            exchange.plan.layout,
            exchange.guarantee,
            exchange.bits,
            most=exchange.clip,
        )
        if taken.empty:
            logger.warning("these clients have no records: %s", some_of(taken.empty))
        people = len(exchange.chosen)
        return Collected(
            clear,
            missing(exchange.chosen, taken.counted, taken.heard),
            bytes_down=down / people,
            bytes_up=taken.bytes / people,
            limit=clear.limit,
        )


class _Taken:
    """Reads replies one by one; each participant counts at most once."""

    def __init__(self, asked: dict[int, list[int]], exchange: Exchange) -> None:
        self._open = {
            node: {member: Participant(node, member) for member in members}
            for node, members in asked.items()
        }
        self._check, self._plan = exchange.check, exchange.plan
        self._guarantee = exchange.guarantee
        # Of a part of its records a small client may well have none.
        self._tells_sizes = exchange.guarantee.total_is_public and exchange.plan.selection.takes_all
        self._most = exchange.clip or LARGEST_CLIENT
        self.counted: set[Participant] = set()
        self.heard: dict[Participant, str] = {}
        """What was wrong with the latest that came of a participant."""
        self.empty: list[str] = []
        """Who has no records, as far as that is public."""
        self.bytes = 0

    def read(self, received: Iterable[Message]) -> Iterable[tuple[str, ClientVector]]:
        """Yield the name and the counts of every participant that answered properly."""
        for reply in received:
            node = reply.metadata.src_node_id
            if node not in self._open:
                continue  # nobody that was asked
            if reply.has_error():
                self._leave_out(node, failure(reply.error))
                continue
            try:
                yield from self._rows(node, reply.content)
            except InvalidReply as error:
                self._leave_out(node, f"invalid reply: {error}")

    def _rows(self, node: int, content: RecordDict) -> Iterable[tuple[str, ClientVector]]:
        record = content.get(ANSWER)
        config = record if isinstance(record, ConfigRecord) else {}
        answer = Answer.from_config(config)
        if not answer.check and answer.reasons:
            self._leave_out(node, refusal(answer.reasons[0]))
            return
        if (answer.check, answer.plan) != (self._check, self._plan.fingerprint):
            raise InvalidReply("the reply belongs to another check")
        self.heard.update(refusals(self._open[node].values(), answer))
        cells = self._plan.length
        rows = _rows(content, len(answer.answered), cells)
        self.bytes += len(str(config[ANSWER])) + 4 * cells * len(rows)
        for member, row in zip(answer.answered, rows, strict=True):
            participant = self._open[node].pop(member, None)
            if participant is None:
                continue  # not asked, or already counted
            try:
                counts = vector_from_wire(row, self._plan.layout, self._guarantee, most=self._most)
            except InvalidReply as error:
                self.heard[participant] = f"invalid reply: {error}"
                continue
            if (
                self._tells_sizes
                and isinstance(counts, ClientCounts)
                and counts.is_empty(self._guarantee)
            ):
                self.heard[participant] = NO_RECORDS
                self.empty.append(str(participant))
            else:
                self.counted.add(participant)
                yield str(participant), counts

    def _leave_out(self, node: int, reason: str) -> None:
        self.heard.update(dict.fromkeys(self._open[node].values(), reason))
        self._open[node].clear()


def _rows(content: RecordDict, rows: int, cells: int) -> list[Held[bytes]]:
    """Read the counts of a node's members, one row each."""
    if not rows:
        return []
    record = content.get(COUNTS)
    array = record.get(COUNTS) if isinstance(record, ArrayRecord) else None
    if array is None:
        raise InvalidReply("the reply carries no counts")
    if array.dtype != "int32" or array.stype != COUNTS_FORMAT:
        raise InvalidReply("counts have the wrong dtype: int32 is expected")
    size = 4 * cells
    if tuple(array.shape) != (rows, cells) or len(array.data) != rows * size:
        raise InvalidReply("counts have the wrong shape: one row a client, one number a cell")
    return [Held(array.data[i * size : (i + 1) * size]) for i in range(rows)]
