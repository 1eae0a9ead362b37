"""Whole sums in one process, over the wire format, with dropouts and lies."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from exact import words

from flwr_kld.common.canonical_bytes import pack_bits
from flwr_kld.common.errors import SecureSumError, TooFewSurvivors
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel.vector import SumVector
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase, decode, signed_text
from flwr_kld.secure_sums.server import SumServer
from flwr_kld.secure_sums.session import Session

PHASES = (Phase.ADVERTISE, Phase.SHARE, Phase.MASK, Phase.REVEAL)
NEVER = 4
EASY = ClientPolicy(min_asked=2, min_clients=2, min_neighbours=1, corrupted=0.0)


def counted(label: str) -> Callable[[int], bytes]:
    """Reproducible 'random' bytes: a SHA-256 chain. Tests only."""
    calls = [0]

    def draw(count: int) -> bytes:
        calls[0] += 1
        blocks = (
            hashlib.sha256(f"{label}/{calls[0]}/{i}".encode()).digest()
            for i in range(count // 32 + 1)
        )
        return b"".join(blocks)[:count]

    return draw


@cache
def people(n: int) -> tuple[dict[str, Identity], Roster]:
    who = {f"c{i:03d}": Identity(counted(f"identity {i}")(32)) for i in range(n)}
    return who, Roster({name: identity.public for name, identity in who.items()})


def majority(n: int, k: int | None = None) -> Shape:
    k = n - 1 if k is None else k
    return Shape(k, Shape.fewest_shares(k, n))


def session_of(n, *, length=4, shape=None, check="check", terms="plan", least=None):
    _, roster = people(n)
    shape = shape or majority(n)
    cohort = tuple(range(n))
    least = n // 2 + 1 if least is None else least
    return Session(check, terms, roster.fingerprint, n, cohort, length, shape, least)


@dataclass
class Sum:
    """One session; `step` runs a phase, `lie` may change any bytes on their way."""

    session: Session
    vectors: np.ndarray
    policy: ClientPolicy = EASY
    label: str | None = None
    lie: Callable = lambda phase, to, index, data: data
    drop: dict = field(default_factory=dict)

    def __post_init__(self):
        self.who, self.roster = people(self.session.listed)
        self.server = SumServer(self.session, self.roster)
        self.clients, self.seen, self.refusals, self.sent = {}, [], {}, {}
        opening = self.session.to_bytes()
        self.requests = dict.fromkeys(range(self.session.size), opening)

    def neighbours(self, i: int) -> np.ndarray:
        """Of a client, in the order of its slots."""
        return self.client(i)._seat.neighbours

    @property
    def collected(self):
        """What the server has received so far."""
        return self.server._state

    def client(self, i: int) -> SumClient:
        if i not in self.clients:
            name = self.server.name(i)
            source = {} if self.label is None else {"random": counted(f"{self.label} {i}")}
            self.clients[i] = SumClient(self.who[name], name, self.roster, self.policy, **source)
        return self.clients[i]

    def answer(self, i: int, phase: Phase, data: bytes) -> bytes:
        client = self.client(i)
        if phase is Phase.ADVERTISE:
            session = self.session
            return client.advertise(
                Session.from_bytes(data), terms="plan", length=session.length
            ).to_bytes()
        message = decode(data)
        if phase is Phase.MASK:
            return client.mask(message, SumVector(self.vectors[i])).to_bytes()
        verb = {Phase.SHARE: client.share, Phase.REVEAL: client.confirm}
        return verb[phase](message).to_bytes()

    def collect(self, phase: Phase) -> None:
        """Let every client that is asked and has not dropped out answer."""
        for i, data in self.requests.items():
            if self.drop.get(i, NEVER) <= phase:
                continue
            try:
                told = self.lie(phase, "client", i, data)
                reply = self.answer(i, phase, told)
                self.sent[phase, i] = reply
                arriving = self.lie(phase, "server", i, reply)
                self.seen.append((phase, i, arriving))
                self.server.receive(decode(arriving))
            except SecureSumError as error:
                self.refusals[i] = type(error).__name__

    def step(self, phase: Phase) -> None:
        self.collect(phase)
        self.requests = {i: m.to_bytes() for i, m in self.server.advance().items()}

    def until(self, phase: Phase) -> "Sum":
        """Run all phases before `phase`."""
        for earlier in PHASES[:phase]:
            self.step(earlier)
        return self

    def run(self):
        for phase in PHASES[self.server.phase :]:
            self.step(phase)
        return self.server.result()


def exact_or_given_up(total: Sum, leaves) -> bool:
    """Run; the sum must be right over exactly those who sent a vector. False if given up."""
    try:
        result = total.run()
    except TooFewSurvivors:
        return False
    alive = np.array(leaves) > Phase.MASK
    assert result.survivors == tuple(total.server.name(i) for i in np.flatnonzero(alive))
    assert np.array_equal(words(result), total.vectors[alive].sum(0, dtype=total.vectors.dtype))
    return True


CLIENTS = 5


def fresh(session=None, **options) -> Sum:
    """A sum of ones that has not begun."""
    session = session or session_of(CLIENTS)
    return Sum(session, np.ones((session.size, session.length), np.uint64), **options)


def at(phase: Phase, session=None, **options) -> Sum:
    """A sum of ones that has come to this phase."""
    return fresh(session, **options).until(phase)


def ask(total: Sum, i: int, phase: Phase, message) -> bytes:
    """Send a client what the server should not have."""
    data = message if isinstance(message, bytes) else message.to_bytes()
    return total.answer(i, phase, data)


def signed_again(total: Sum, message):
    """What a client that lies would send: other content under its own good signature."""
    text = signed_text(total.session.digest, message.kind, message.sender, message.body())
    return replace(message, signature=total.who[total.server.name(message.sender)].sign(text))


def alive_without(*gone: int, n: int = CLIENTS) -> bytes:
    """A list of survivors that leaves some out."""
    mask = np.ones(n, bool)
    mask[list(gone)] = False
    return pack_bits(mask)
