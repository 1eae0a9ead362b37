"""A whole secure sum in one process over the wire format, with its cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.vector import SumVector
from flwr_kld.sums import Identity, Roster
from flwr_kld.sums.client import SumClient
from flwr_kld.sums.graph import Shape, Tolerance
from flwr_kld.sums.messages import Phase, decode
from flwr_kld.sums.policy import ClientPolicy
from flwr_kld.sums.server import SumResult, SumServer
from flwr_kld.sums.session import Session

PHASES = (Phase.ADVERTISE, Phase.SHARE, Phase.MASK, Phase.REVEAL)
NEVER = 4
"""Phase at which a client that stays drops out."""


@dataclass(frozen=True)
class Cost:
    """What one run cost: CPU of a client and of the server for it, and bytes of a client."""

    clients: int
    neighbours: int
    threshold: int
    client_ms: float
    server_ms: float
    received: int
    sent: int

    @property
    def total_ms(self) -> float:
        """CPU of a client and its part of the server's."""
        return self.client_ms + self.server_ms


class Federation:
    """Identities of n clients, made once."""

    def __init__(self, clients: int) -> None:
        self.who = {f"client-{i:05d}": Identity.generate() for i in range(clients)}
        self.roster = Roster({name: key.public for name, key in self.who.items()})

    def run(
        self,
        vectors: NDArray[Any],
        *,
        tolerance: Tolerance | None = None,
        shape: Shape | None = None,
        policy: ClientPolicy | None = None,
        leaves: Sequence[int] | NDArray[np.int64] = (),
    ) -> tuple[SumResult, Cost]:
        """One sum; client i stops answering from phase leaves[i] on."""
        n, length = vectors.shape
        leaves = leaves if len(leaves) else [NEVER] * n
        clock = time.process_time
        client_s = server_s = 0.0
        received = sent = 0
        began = clock()
        session = Session.open(
            self.roster,
            list(self.who),
            check="bench",
            terms="plan",
            length=length,
            tolerance=tolerance,
            shape=shape,
        )
        server = SumServer(session, self.roster)
        requests = dict.fromkeys(range(n), session.to_bytes())
        server_s += clock() - began
        clients: dict[int, SumClient] = {}
        for phase in PHASES:
            answers: list[bytes] = []
            began = clock()
            for i, request in requests.items():
                if leaves[i] <= phase:
                    continue
                received += len(request)
                if phase is Phase.ADVERTISE:
                    name = server.name(i)
                    clients[i] = SumClient(self.who[name], name, self.roster, policy)
                answers.append(_answer(clients[i], phase, request, vectors[i]))
                sent += len(answers[-1])
            client_s += clock() - began
            began = clock()
            for answer in answers:
                server.receive(decode(answer))
            requests = {i: message.to_bytes() for i, message in server.advance().items()}
            server_s += clock() - began
        k, t = session.shape.neighbours, session.shape.threshold
        cpu = 1e3 * client_s / n, 1e3 * server_s / n
        return server.result(), Cost(n, k, t, *cpu, received // n, sent // n)


def _answer(client: SumClient, phase: Phase, request: bytes, values: NDArray[Any]) -> bytes:
    if phase is Phase.ADVERTISE:
        session = Session.from_bytes(request)
        return client.advertise(session, terms="plan", length=len(values)).to_bytes()
    message: Any = decode(request)
    if phase is Phase.SHARE:
        return client.share(message).to_bytes()
    if phase is Phase.MASK:
        return client.mask(message, SumVector(values)).to_bytes()
    return client.confirm(message).to_bytes()


def is_sum(result: SumResult, truth: NDArray[Any]) -> bool:
    """Whether a sum of vectors that are known here is right, word for word."""
    return np.array_equal(result.total._words, truth)
