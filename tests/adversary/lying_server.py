"""A lying server as an actor: it met an honest client, and may now ask it whatever it likes.

Honest checks are recorded at one client; then it is asked again with changed messages, from the
state that it had. Each answer is a refusal in public words, or one whose exact privacy loss,
recomputed here from what was counted and noised, is at most what the client's guard was told.
"""

import math
import pickle
import random
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from adversary.mutations import mutate
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import ConfigRecord, Context, Message
from sealed_federation import KEY, federation
from split_federation import PAIR, Members
from split_federation import federation as split_between
from tables import REFERENCE as OF_TABLE
from tables import TABLE, rows, table_app

from flwr_kld.clients.admission import Gate
from flwr_kld.clients.own_records import OwnRecords
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.secure_sums.session import Session
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)
from flwr_kld.trust.calibration import calibrated_laplace
from flwr_kld.trust.terms import NoiseShares, Terms

Counts = np.ndarray[tuple[int], np.dtype[np.int64]]

VICTIM = 1000
EPSILON, SHARES, HALF = 3.0, {"min_clients": 11}, {"min_clients": 5}


def sealed(**options):
    return TrustedAggregator(EPSILON, aggregator=KEY.public, **options)


def split(**options):
    return TwoAggregators(EPSILON, aggregators=PAIR, **options)


SCENARIOS = {
    "plain": (Trusted(EPSILON), None),
    "plain, clients": (Trusted(EPSILON, protects=WholeClients(20)), None),
    "sum": (Trusted(EPSILON), SecureSum),
    "sum, clients": (Trusted(EPSILON, protects=WholeClients(20)), SecureSum),
    "sealed": (sealed(), None),
    "sealed, clients": (sealed(protects=WholeClients(20)), None),
    "split": (split(), None),
    "split, clients": (split(protects=WholeClients(20)), None),
    "shares": (Distributed(EPSILON, **SHARES), SecureSum),
    "shares, clients": (Distributed(EPSILON, protects=WholeClients(20), **HALF), SecureSum),
}
"""Every trust model, and all that is protected."""
SCENARIOS |= {
    f"table, {name}": SCENARIOS[name]
    for name in (
        "plain", "plain, clients", "sum", "sealed", "sealed, clients", "split", "shares",
        "shares, clients",
    )
}  # fmt: skip
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-3}
"""Where the sums of three columns, too, are noised by what counts are: it is less than Laplace."""
SCENARIOS |= {
    "table, shares, Gaussian": (
        Distributed(**GAUSSIAN, **SHARES),
        SecureSum,
    ),
    "table, shares, clients, Gaussian": (
        Distributed(protects=WholeClients(20), **GAUSSIAN, **HALF),
        SecureSum,
    ),
}
NODES = 12


@dataclass
class Watch:
    """What the client really did while it answered one message."""

    admitted: list[Terms] = field(default_factory=list)
    counted: list[Terms] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Watch]:
    """Note what a client tells its guard, which allows everything, and what it counts."""
    seen, load = Watch(), OwnRecords.load

    def loading(own, context, member, domain, question):
        seen.counted.append(question)
        return load(own, context, member, domain, question)

    def admitting(gate, member):
        seen.admitted.append(gate._terms)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(OwnRecords, "load", loading))
        stack.enter_context(mock.patch.object(Gate, "admit", admitting))
        yield seen


def anew(kept: bytes) -> Any:
    """Return a copy of a message or context that this process pickled: faster than deepcopy."""
    return pickle.loads(kept)  # noqa: S301


class LyingServer:
    """One scenario's client, and what an honest server asked it.

    Parameters
    ----------
    name : str
        Of `SCENARIOS`.
    folder : Path
        For the clients' files.
    """

    def __init__(self, name: str, folder: Path) -> None:
        trust, kind = SCENARIOS[name]
        table = name.startswith("table")
        load, build = (rows, table_app) if table else (basket, app_of)
        records = lru_cache(lambda node: load(Context(0, node, {}, None, {})))
        self._app = build(
            lambda context: records(context.node_id),
            secure_sum=Members(),
            aggregator=KEY.public,
            aggregators=PAIR,
            record_ids=lambda context: np.arange(100),
        )
        self._columns = TABLE.per_record if table else 1
        self._messages: list[Message] = []
        self._met: list[tuple[bytes, bytes]] = []
        """Each of them, and the client's context before it, to be copied by pickle."""

        def client(message, context):
            if context.node_id == VICTIM and message.metadata.message_type != "query.drift_role":
                self._met.append((pickle.dumps(message), pickle.dumps(context)))
                self._messages.append(anew(self._met[-1][0]))
            return self._app(message, context)

        made = {"trusted-aggregator": federation, "two-aggregators": split_between}
        grid = made.get(trust.name, partial(grid_of, nodes=NODES))(client)
        monitor = KLDrift(
            OF_TABLE if table else REFERENCE,
            trust,
            aggregation=kind and kind(),
            threshold=0.05,
        )
        monitor.check(grid)
        self._openings = [i for i, message in enumerate(self._messages) if asks(message)]

    def lie(self, rng: random.Random, seen: Watch) -> int:
        """Ask one lie, and judge what the client made of it; return how often it was answered."""
        place = rng.choice([rng.randrange(len(self._messages)), rng.choice(self._openings)])
        lie = anew(self._met[place][0])
        mutate(lie, self._messages, rng)
        state = rng.choice([place, place, place, rng.randrange(len(self._met))])
        context = anew(self._met[state][1])
        seen.admitted.clear()
        seen.counted.clear()
        reply = self._app(lie, context)  # whatever it raised, Flower would send to the server
        said = str(reply.content.get("answer"))
        assert not [word for word in FRUIT.names if word in said]
        assert all(question.columns == self._columns for question in seen.counted)
        for question in seen.admitted:
            hold(question, session_of(lie))
        assert all(question in seen.admitted or of_sum(context, question)
                   for question in seen.counted)  # fmt: skip
        return len(seen.admitted)


def asks(message) -> bool:
    """Whether a message carries terms."""
    return "terms" in message.content


def session_of(lie) -> Session | None:
    """The session of a sum that a message opens."""
    opens = "terms" in lie.content and "phase" in lie.content
    return Session.from_bytes(lie.content["phase"]["0"]) if opens else None


def of_sum(context, question: Terms) -> bool:
    """Whether these are the terms of the sum which the client agreed to before."""
    terms = context.state.get("flwr_kld.sum.terms")
    return isinstance(terms, ConfigRecord) and Terms.from_config(terms) == question


def hold(question: Terms, session: Session | None) -> None:
    """What a client admits costs what it claims, and shows a server no few clients."""
    asked = question.guarantee
    noise = question.noise if isinstance(question.noise, NoiseShares) else None
    if question.trust == "trusted" and session is not None:
        assert session.size >= 3
    if noise is not None:
        assert session.min_clients >= noise.n_min
    if question.counted:
        assert asked.protects == "record"
        assert question.period is None
    delta = exact_delta(
        asked,
        question.most_records,
        noise,
        question.allotment,
        row_moves(question.wire) if question.columns > 1 else 1,
    )
    assert delta <= asked.delta


@lru_cache(maxsize=1000)
def row_moves(wire: bytes) -> int:
    """Most cells that one row more moves, and another in its place as often down, by trying all.

    Raises
    ------
    AssertionError
        If any row moves a cell by more than 1.
    """
    cell_of = np.frombuffer(zlib.decompress(wire), dtype="<i4")
    symbols = list(product(*(range(part.start, part.stop) for part in TABLE.parts)))
    counts = np.zeros((len(symbols), cell_of.max() + 1), dtype=np.int64)
    np.add.at(counts, (np.arange(len(symbols))[:, None], cell_of[np.array(symbols)]), 1)
    assert counts.max() == 1
    return int(counts.sum(axis=1).max())


@lru_cache(maxsize=1000)
def exact_delta(
    asked: Guarantee, most: int, noise: NoiseShares | None, allotment: Allotment, moved: int
) -> float:
    """Delta at the claimed epsilon of the table that noises what is counted, by its own move.

    Where the noise is another's it is what the claim makes a trusted server or aggregator add.
    A row moves at most `moved` cells up and as many down, each by a count: columns share none.
    And it moves how many records are alike, in each column.
    """
    epsilon, whole = asked.epsilon, asked.protects != "record"
    steps, alike = allotment.counts[:moved], (allotment.alike,) * allotment.columns
    each = (1, -1)
    if whole:
        if not most:
            return math.inf  # nothing bounds a client's vector
        each, alike = (most,), tuple(most * move for move in alike)
    shifts = (*(n * move for n in steps for move in each), *(move for move in alike if move))
    if noise is not None:
        event = noise.release(asked, allotment)
        table, shifts = event.noise(noise.n_min), tuple(event.grid * s for s in shifts)
        if event.mechanism == "discrete-laplace":  # no move of this norm loses more than this one
            shifts = (sum(map(abs, shifts)),)
        return float(hockey_stick(table, shifts, epsilon))
    claimed = allotment.moves("record")
    if whole:
        claimed = asked.protects.most_records
        if most == claimed > 100:
            return 0.0  # it hides just this move: large tables take seconds to build
        claimed = (claimed * (sum(allotment.counts) + allotment.alike * allotment.columns),)
    try:
        central = calibrated_laplace(Guarantee(epsilon), moves=claimed)
    except ValueError:  # a claim that nobody can keep: a trusted party releases nothing
        return 0.0
    return float(hockey_stick(central.table, shifts, epsilon))
