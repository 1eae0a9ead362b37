"""kill -9 of server, aggregators and nodes, all through a session: what is published stays right.

The server is a process of its own on every night, as under a scheduler, and so is each node and
each aggregator for every message, as on Flower. What they remember is in their files.
"""

import json
import os
import pickle
import random
import select
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from federation import FRUIT, REFERENCE
from flwr.app import Context, Error, Message
from forks import forked, joined

from flwr_kld.common.errors import CheckFailed
from flwr_kld.ledger import Budget, Kind, Ledger
from flwr_kld.strategies import KLDrift
from flwr_kld.trust.envelopes import NUMBERS, PUBLISHED, TERMS
from flwr_kld.trust.terms import Terms
from strategies.test_standing import DELTA, Federation, counts_of

EPSILON = 8.0
"""Large, so that the noise hides no client that counts twice, or not at all."""
FAR = 6
"""Standard deviations."""
BOOKS = {
    "trusted": ["standing.db"],
    "sealed": ["aggregated.db.sessions"],
    "split": ["first.db.sessions", "second.db.sessions"],
}

pytestmark = pytest.mark.usefixtures("no_waiting")


class Processes:
    """Run work in processes of their own, and kill them by chance, at any time."""

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        self._took: dict[str, float] = {}

    def say(self, *words: object) -> None:
        """Write a line that no kill tears."""
        os.write(self._log, (" ".join(map(str, words)) + "\n").encode())

    def run(self, who: str, work: Callable[[], bytes], fate: random.Random, chance: float) -> bytes:
        """Return what `work` says; nothing if it was killed, which a quick one is at its end."""
        dies = fate.random() < chance
        patience = fate.random() * self._took.get(who, 0.02) if dies else None
        reading, writing = os.pipe()

        def tell() -> None:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(work())
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)

        began, child = time.monotonic(), forked(tell)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            if not select.select([pipe], [], [], patience)[0]:
                os.kill(child, signal.SIGKILL)
            told = pipe.read()  # its own children hold the pipe, too: they go on to their end
        code = joined(child)
        if code == [-signal.SIGKILL]:
            self.say("killed", who)
            return b""
        assert code == [0]
        self._took[who] = time.monotonic() - began
        return told


class Mortal(Federation):
    """A federation whose nodes and aggregators are killed with a chance."""

    def __init__(self, model: str, folder: Path, nodes: int, processes: Processes) -> None:
        super().__init__(model, folder, nodes)
        self.processes, self.chance, self.attempt = processes, 0.0, 0
        self._handle, self.grid.app = self.grid.app, self._in_a_process

    def _in_a_process(self, message: Message, context: Context) -> Message:
        terms = message.content.get(TERMS)
        if terms is None:
            return self._handle(message, context)
        node, night = context.node_id, Terms.from_config(terms).night
        who = "aggregator" if "aggregate" in message.metadata.message_type else "node"
        told = self.processes.run(
            who,
            lambda: pickle.dumps(self._handle(message, context).content),
            random.Random(f"{node} {self.attempt}"),
            self.chance,
        )
        if not told:
            return Message(Error(5, "killed"), reply_to=message)
        content = pickle.loads(told)  # noqa: S301
        # The first of two aggregators answers once more, before it counts: without values.
        if content.get(NUMBERS) or "values" in content.get(PUBLISHED, {}):
            self.processes.say("answered", node, night.number, self.attempt)
        return Message(content, reply_to=message)

    def live(self, fate: random.Random) -> None:
        """Let some of each node's records go, and others come."""
        self.attempt += 1
        for own in self.records.values():
            for gone in list(own)[: fate.randrange(9)]:
                del own[gone]
            for new in range(fate.randrange(9)):
                own[f"{self.attempt} {new}"] = fate.choice(FRUIT.names)

    def counts(self) -> dict[int, np.ndarray]:
        """Counts of each node's records."""
        return {
            node: np.array([list(own.values()).count(name) for name in FRUIT.names] + [0, 0])
            for node, own in self.records.items()
        }


def last_night(book: Path) -> int:
    """Of the session in a book; 0 before the first."""
    if not book.exists():
        return 0
    with closing(sqlite3.connect(book)) as db:
        return db.execute("SELECT max(night) FROM sessions").fetchone()[0] or 0


@pytest.mark.parametrize(
    ("model", "nights", "nodes", "least"),
    [
        ("sealed", 5, 8, 1),
        *(pytest.param(model, 30, 20, 110, marks=pytest.mark.slow) for model in BOOKS),
    ],
)
def test_a_session_survives_kills(model, nights, nodes, least, tmp_path, on_claim, capsys):
    log, url = tmp_path / "log", f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(EPSILON, DELTA, window_days=400))
    processes, fate = Processes(log), random.Random(nights)
    federation = Mortal(model, tmp_path, nodes, processes)
    books = [tmp_path / name for name in BOOKS[model]]
    on_claim(lambda book, terms, _: processes.say("claimed", book._file.name, terms.night.number))

    def said(kind: str) -> list[list[str]]:
        lines = [line.split() for line in log.read_text().splitlines()]
        return [words[1:] for words in lines if words[0] == kind]

    def check() -> bytes:
        trust = federation.standing(EPSILON, nights)
        monitor = KLDrift(REFERENCE, trust, ledger=url, timeout=5.0)
        try:
            report = monitor.check(federation.grid)
        except CheckFailed:
            return b"null"
        return json.dumps([report.cost.night, counts_of(report).tolist()]).encode()

    def begun() -> int:
        state = Ledger(url).state("default/session/standing")
        return 0 if state is None else state.value["night"]

    counted = {book: {} for book in books}  # of each node, its counts when it was last added up
    claims, published = dict.fromkeys(books, 0), []
    while (night := begun()) < nights:
        quiet = night in (0, nights - 1)
        federation.live(fate)
        federation.chance = 0.0 if quiet else 0.4
        before = {book: last_night(book) for book in books}
        told = processes.run("server", check, fate, 0.0 if quiet else 0.5)
        counts, attempt = federation.counts(), str(federation.attempt)
        came = [int(node) for node, _, when in said("answered") if when == attempt]
        for book in books:
            if last_night(book) > before[book]:
                claims[book] += 1
                counted[book] |= {node: counts[node] for node in came if node in counts}
        report = json.loads(told or b"null")
        assert report or not quiet
        if report:
            first, *others = (sum(of.values()) for of in counted.values())
            assert all((first == other).all() for other in others)
            published.append((report[0], np.array(report[1]) - first, list(claims.values())))

    # No night twice: of a node, an aggregator, a book, or a report.
    for kind in ("answered", "claimed"):
        assert set(Counter(tuple(words[:2]) for words in said(kind)).values()) == {1}
    numbers = [number for number, *_ in published]
    assert numbers == sorted(set(numbers))
    ledger = Ledger(url)
    reports = [entry.report for entry in ledger.history() if entry.report]
    settled = [report["cost"]["night"] for report in reports]
    assert len(set(settled)) == len(settled)
    # Paid for once.
    assert [entry.kind for entry in ledger.history()].count(Kind.SESSION) == 1
    assert ledger.spent().epsilon == EPSILON
    # Right on every night, and over all of them.
    trust = federation.standing(EPSILON, nights).over(1)
    own, total = trust.event(1).table.variance, np.zeros((len(books), nights))
    own /= trust.allotment.counts[0] ** 2
    for _, off, at in published:
        weights = [np.pad(trust.stream.weights(n), (0, nights - n)) for n in at]
        assert np.abs(off).max() <= FAR * (own * np.square(weights).sum()) ** 0.5
        total += weights
    cells = len(published[0][1])
    assert abs(sum(off.sum() for _, off, _ in published)) <= (
        FAR * (cells * own * np.square(total).sum()) ** 0.5
    )
    killed = Counter(who for (who,) in said("killed"))
    assert killed.total() >= least
    with capsys.disabled():
        print(f"\n{model}: killed {dict(killed)}; {len(published)} of {nights} nights published")
