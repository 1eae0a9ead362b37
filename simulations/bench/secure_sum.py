"""Cost of secure sums in one process, beside the bare operations.

CPU counts everybody: each client, the server's work for it, signatures, and the reading and writing
of every message. Floor: the X25519 and Ed25519 operations that this protocol's clients cannot do
without, timed in the same run, in turns with the sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from measuring import Row, measured, public_key_seconds
from numpy.typing import NDArray

from flwr_kld.kernel.vector import SumVector
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase, decode
from flwr_kld.secure_sums.server import SumServer
from flwr_kld.secure_sums.session import Session

_RANDOM = np.random.default_rng(0)
_CELLS = 1000
USUAL = Shape(62, 43)
"""Neighbours and threshold that a check among 1,000 clients has; `rows` holds it to that."""


class Federation:
    """Identities of n clients, and counts such as a check would sum."""

    def __init__(self, clients: int) -> None:
        self.who = {f"client-{i:05d}": Identity.generate() for i in range(clients)}
        self.roster = Roster({name: key.public for name, key in self.who.items()})
        self.vectors = _RANDOM.integers(0, 1000, (clients, _CELLS), dtype=np.uint32)

    def run(self, shape: Shape | None = None) -> tuple[float, int]:
        """Run one sum, hold it against the truth; return CPU seconds, and bytes of a client."""
        began, carried = time.process_time(), 0
        session = Session.open(
            self.roster, list(self.who), check="bench", terms="plan", length=_CELLS,
            shape=shape,
        )  # fmt: skip
        server = SumServer(session, self.roster)
        names = [server.name(i) for i in range(session.size)]
        clients = [SumClient(self.who[name], name, self.roster) for name in names]
        requests = dict.fromkeys(range(session.size), session.to_bytes())
        while requests:
            answers = [_answer(clients[i], text, self.vectors[i]) for i, text in requests.items()]
            carried += sum(map(len, [*requests.values(), *answers]))
            for answer in answers:
                server.receive(decode(answer))
            requests = {i: message.to_bytes() for i, message in server.advance().items()}
        seconds = time.process_time() - began
        if not np.array_equal(server.result().total._words, self.vectors.sum(0, dtype=np.uint64)):
            raise RuntimeError("a sum is wrong")
        return seconds, carried // session.size


def _answer(client: SumClient, request: bytes, values: NDArray[np.uint32]) -> bytes:
    if client.phase is Phase.ADVERTISE:
        session = Session.from_bytes(request)
        return client.advertise(session, terms="plan", length=len(values)).to_bytes()
    message: Any = decode(request)
    if client.phase is Phase.SHARE:
        return client.share(message).to_bytes()
    if client.phase is Phase.MASK:
        return client.mask(message, SumVector(values)).to_bytes()
    return client.confirm(message).to_bytes()


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among few and among many clients, beside the floor."""
    for size in (20, 40) if quick else (100, 1_000):
        some = Federation(size)
        shape = Session.open(
            some.roster, list(some.who), check="bench", terms="plan", length=_CELLS
        ).shape
        if size == 1_000 and shape != USUAL:
            raise RuntimeError(f"checks among 1,000 clients have {shape} now: correct USUAL")
        k = shape.neighbours
        yield measured(
            "secure_sum", "clients", lambda some=some: some.run()[0], size=size,
            repeats=1 if size == 1_000 else repeats,
            peer="bare X25519, Ed25519",
            theirs=lambda n=size, k=k: n * public_key_seconds(
                exchanges=2 * k, verifications=k + 4, signatures=4, keys=2
            ),
        )  # fmt: skip
