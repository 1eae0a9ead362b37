"""Ask a cohort for its counts and add them up in the clear, at a trusted server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from flwr_kld.counts import LARGEST_CLIENT, ClearSum, ClientCounts
from flwr_kld.errors import InvalidReply
from flwr_kld.protocol import (
    ANSWER,
    COUNTS,
    COUNTS_FORMAT,
    DRIFT_ACTION,
    QUESTION,
    Answer,
    Question,
)
from flwr_kld.query import QueryPlan
from flwr_kld.strategies.cohort import Participant

_TYPE = f"query.{DRIFT_ACTION}"
_LONGEST_REASON = 200


@dataclass(frozen=True)
class Collected:
    """What came back from a cohort.

    Parameters
    ----------
    clear : ClearSum
        Exact sum over the survivors. Private.
    survivors : int
        Participants whose counts are in the sum.
    dropouts : dict[str, int]
        Participants left out, by reason.
    bytes_down, bytes_up : float
        Payload for each participant asked, mean.
    """

    clear: ClearSum
    survivors: int
    dropouts: dict[str, int]
    bytes_down: float
    bytes_up: float


def plain_sum(
    grid: Grid,
    chosen: list[Participant],
    plan: QueryPlan,
    *,
    check: str,
    group: str,
    clip: int | None,
    timeout: float,
) -> Collected:
    """Send the question, wait, and sum every valid row of counts.

    Clients that do not reply in time, fail, refuse, or send something that is not an answer are
    left out and counted by reason; nothing they do can stop the others.

    Parameters
    ----------
    check, group : str
        Random id of the check, which replies repeat; Flower group id of its messages.
    clip : int or None
        Most records one participant may count.
    timeout : float
        Seconds to wait for all replies together.
    """
    asked: dict[int, list[int]] = defaultdict(list)
    for participant in chosen:
        asked[participant.node].append(participant.member)
    # Nodes that are asked the same share one record, as in Flower's own strategies.
    contents = {
        members: _question(plan, list(members), check, clip)
        for members in set(map(tuple, asked.values()))
    }
    messages = [
        Message(contents[tuple(m)], node, _TYPE, ttl=timeout, group_id=group)
        for node, m in asked.items()
    ]
    down = sum(contents[tuple(m)].config_records[QUESTION].count_bytes() for m in asked.values())
    replies = _Replies(asked, check, plan, clip or LARGEST_CLIENT)
    clear = ClearSum(replies.read(grid.send_and_receive(messages, timeout=timeout)), plan)
    return Collected(
        clear,
        survivors=replies.valid,
        dropouts=replies.dropouts(len(chosen)),
        bytes_down=down / len(chosen),
        bytes_up=replies.bytes / len(chosen),
    )


def _question(plan: QueryPlan, members: list[int], check: str, clip: int | None) -> RecordDict:
    reference = plan.reference
    question = Question(
        check=check,
        domain=reference.domain.fingerprint,
        reference=reference.fingerprint,
        plan=plan.fingerprint,
        cells=plan.cells,
        wire=plan.wire,
        members=members,
        clip=clip or 0,
    )
    return RecordDict({QUESTION: ConfigRecord(question.to_config())})


class _Replies:
    """Reads replies one by one; each participant counts at most once."""

    def __init__(self, asked: dict[int, list[int]], check: str, plan: QueryPlan, most: int) -> None:
        self._open = {node: set(members) for node, members in asked.items()}
        self._check, self._plan, self._most = check, plan, most
        self._reasons: Counter[str] = Counter()
        self.valid = 0
        self.bytes = 0

    def read(self, replies: Iterable[Message]) -> Iterable[ClientCounts]:
        """Yield the counts of every participant that answered properly."""
        for reply in replies:
            node = reply.metadata.src_node_id
            if node not in self._open:
                continue  # nobody that was asked
            if reply.has_error():
                # The error's text may quote a client's data: only its code is passed on.
                self._leave_out(node, f"client error (Flower code {reply.error.code})")
                continue
            try:
                yield from self._rows(node, reply.content)
            except InvalidReply as error:
                self._leave_out(node, f"invalid reply: {error}")

    def dropouts(self, asked: int) -> dict[str, int]:
        """Participants left out, by reason; silence is one."""
        silent = asked - self.valid - self._reasons.total()
        return dict(self._reasons + Counter({"no reply": silent}))

    def _rows(self, node: int, content: RecordDict) -> Iterable[ClientCounts]:
        record = content.get(ANSWER)
        config = record if isinstance(record, ConfigRecord) else {}
        answer = Answer.from_config(config)
        if not answer.check and answer.reasons:
            self._leave_out(node, _refusal(answer.reasons[0]))
            return
        if (answer.check, answer.plan) != (self._check, self._plan.fingerprint):
            raise InvalidReply("the reply belongs to another check")
        refused = min(len(answer.reasons), len(self._open[node] - set(answer.answered)))
        self._reasons.update(map(_refusal, answer.reasons[:refused]))
        matrix = _matrix(content, len(answer.answered), self._plan.cells)
        self.bytes += len(str(config[ANSWER])) + matrix.nbytes
        for member, row in zip(answer.answered, matrix, strict=True):
            if member not in self._open[node]:
                continue  # not asked, or already counted
            self._open[node].discard(member)
            try:
                counts = ClientCounts(row, cells=self._plan.cells, most=self._most)
            except InvalidReply as error:
                self._reasons[f"invalid reply: {error}"] += 1
            else:
                self.valid += 1
                yield counts

    def _leave_out(self, node: int, reason: str) -> None:
        self._reasons[reason] += len(self._open[node])
        self._open[node].clear()


def _refusal(reason: str) -> str:
    """Quote a client's reason: short, and nothing that a terminal would obey."""
    return f"refused: {''.join(filter(str.isprintable, reason[:_LONGEST_REASON]))}"


def _matrix(content: RecordDict, rows: int, cells: int) -> NDArray[np.int32]:
    """Read the counts of a node's members, one row each."""
    if not rows:
        return np.empty((0, cells), dtype=np.int32)
    record = content.get(COUNTS)
    array = record.get(COUNTS) if isinstance(record, ArrayRecord) else None
    if array is None:
        raise InvalidReply("the reply carries no counts")
    if array.dtype != "int32" or array.stype != COUNTS_FORMAT:
        raise InvalidReply("counts have the wrong dtype: int32 is expected")
    if tuple(array.shape) != (rows, cells) or len(array.data) != 4 * rows * cells:
        raise InvalidReply("counts have the wrong shape: one row a client, one number a cell")
    return np.frombuffer(array.data, dtype="<i4").astype(np.int32, copy=False).reshape(rows, cells)
