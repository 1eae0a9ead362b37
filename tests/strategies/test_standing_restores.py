"""Servers, parts of them, aggregators and nodes that are put back to an earlier night.

What is released is recorded where it is claimed, and what it loses of a record is computed anew,
from the mechanism's definition alone.
"""

import math
import random
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from federation import REFERENCE

from flwr_kld.common.errors import CheckFailed, SessionOver
from flwr_kld.kernel.continual import UNIT
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.strategies import KLDrift
from flwr_kld.trust.calibration import continual_release
from strategies.test_standing import DELTA, MODELS, NIGHTS, NODES, Federation
from strategies.test_standing_kills import BOOKS

PHASES = ("between nights", "asked", "claimed")
NODE = "1003.lives.standing"

pytestmark = pytest.mark.usefixtures("no_waiting")


class Scene:
    """A federation, what its books claim, and copies of its files."""

    def __init__(self, model: str, folder: Path, on_claim) -> None:
        self.folder, self.federation = folder, Federation(model, folder)
        self.url, self.claims = f"sqlite:///{folder}/drift.db", []
        Ledger(self.url).set_budget(Budget(20.0, 1e-3, window_days=400))
        self.hooks = dict.fromkeys(PHASES, lambda: None)
        push = self.federation.grid.push_messages

        def claimed(book, terms, noise):
            self.claims.append((book._file.name, terms.session, terms.night, [*noise._seeds]))
            self.hooks["claimed"]()

        def pushed(messages):
            messages = list(messages)
            if any(m.metadata.message_type == "query.drift" for m in messages):
                self.hooks["asked"]()
            return push(messages)

        on_claim(claimed)
        self.federation.grid.push_messages = pushed

    def night(self) -> CheckFailed | None:
        """Run one, in a monitor of its own as under a scheduler; return why it failed."""
        trust = self.federation.standing()
        try:
            KLDrift(REFERENCE, trust, ledger=self.url, timeout=5.0).check(self.federation.grid)
        except CheckFailed as error:
            return error
        return None

    def _files(self, names: list[str], folder: Path) -> set[Path]:
        return {path for name in names for path in folder.glob(f"{name}*")}

    def back_up(self, names: list[str]) -> None:
        for path in self._files(names, self.folder):
            (self.folder / "backup").mkdir(exist_ok=True)
            shutil.copy(path, self.folder / "backup" / path.name)

    def put_back(self, names: list[str]) -> None:
        for path in self._files(names, self.folder):
            path.unlink()
        for path in self._files(names, self.folder / "backup"):
            shutil.copy(path, self.folder / path.name)

    def rows(self, book: str) -> dict[str, list[tuple[int, tuple[bytes, ...]]]]:
        """Of each session the nights that a book released, with all seeds so far."""
        found = {}
        for name, session, night, seeds in self.claims:
            if name == book:
                found.setdefault(session, []).append((night.number, tuple(seeds)))
        return found

    def epsilon(self, book: str, again: tuple[int, ...] = ()) -> float:
        """What a book's releases of one session lose of a record, at most, at the claim's δ.

        Rows that were released `again` count twice, and all rows of the session as released.
        """
        trust = self.federation.standing().over(1)
        release = continual_release(trust.guarantee, trust.stream, trust.allotment)
        (steps,) = trust.allotment.counts
        root = [1.0]
        for k in range(1, NIGHTS):
            root.append(root[-1] * (2 * k - 1) / (2 * k))
        c = np.round(UNIT * np.array(root))
        worst = 0.0
        for nights in self.rows(book).values():
            ranks = np.array([len(seeds) for seeds in {seeds for _, seeds in nights}])
            ranks = np.array([*range(1, NIGHTS + 1), *again]) if again else ranks
            for begin in range(1, NIGHTS + 1):
                for end in range(begin + 1, NIGHTS + 2):
                    here = np.where(ranks >= begin, c[np.maximum(ranks - begin, 0)], 0)
                    gone = np.where(ranks >= end, c[np.maximum(ranks - end, 0)], 0)
                    worst = max(worst, float(((here - gone) ** 2).sum()))
        # It leaves one count and enters another, and is among the frozen records from other nights.
        return _epsilon_of((2 * steps**2 + 1) * worst / release.table.variance)


def _epsilon_of(squares: float) -> float:
    """The Gaussian mechanism's ε at `DELTA`, of so many squared standard deviations."""
    mu, low, high = math.sqrt(squares), 0.0, 50.0

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    while high - low > 1e-9 and mu:
        middle = (low + high) / 2
        loses = phi(mu / 2 - middle / mu) - math.exp(middle) * phi(-mu / 2 - middle / mu)
        low, high = (middle, high) if loses > DELTA else (low, middle)
    return high if mu else 0.0


def parts_of(model: str) -> list[list[str]]:
    """What is put back together: parts, whole servers, whole aggregators, all, and a node."""
    books = BOOKS[model]
    claims = [] if model == "trusted" else [book.removesuffix(".sessions") for book in books]
    several = [[book] for book in books] if len(books) > 1 else []
    return [["drift.db"], books, *several, ["drift.db", *books, *claims], [NODE]]


def play(scene: Scene, parts: list[str], phase: str, fate: random.Random) -> None:
    """Run a session of which parts are put back."""
    nodes = sorted(scene.federation.records)

    def silence() -> None:
        scene.federation.silent = set(fate.sample(nodes, fate.choice([0, 1, 3, 3, 5])))

    for _ in range(fate.randint(1, 3)):
        assert scene.night() is None
    if phase == "between nights":
        scene.back_up(parts)
    else:
        done = []

        def hook() -> None:
            if not done:
                done.append(scene.back_up(parts))

        scene.hooks[phase] = hook
        assert scene.night() is None
        scene.hooks[phase] = lambda: None
    for _ in range(fate.randint(1, 3)):
        silence()
        scene.night()
    before = len(scene.claims)
    scene.federation.silent = set(fate.sample(nodes, 1))
    scene.night()
    assert len(scene.claims) > before  # something was released that the copy does not know
    scene.put_back(parts)
    for _ in range(5):  # whatever becomes of one, the next is tried
        silence()
        scene.night()


def require_right(scene: Scene, model: str) -> None:
    """No night is released twice, no row gets a second noise, and ε is at most the claim."""
    for book in BOOKS[model]:
        for nights in scene.rows(book).values():
            numbers = [number for number, _ in nights]
            assert numbers == sorted(set(numbers))
            assert [len(seeds) for _, seeds in nights] == [*range(1, len(nights) + 1)]
            assert all(a == b[:-1] for (_, a), (_, b) in pairwise(nights))
        assert scene.epsilon(book) <= 1.0


@pytest.mark.parametrize(
    ("model", "phase"), [("trusted", "claimed"), ("sealed", "claimed"), ("split", "asked")]
)
def test_a_ledger_that_was_copied_during_a_night_costs_nothing_beside_its_book(
    model, phase, tmp_path, on_claim
):
    """Put back before the next night."""
    scene = Scene(model, tmp_path, on_claim)
    assert scene.night() is None
    scene.hooks[phase] = lambda: scene.back_up(["drift.db"])
    assert scene.night() is None
    scene.hooks[phase] = lambda: None
    scene.put_back(["drift.db"])
    for _ in range(3):
        assert scene.night() is None
    require_right(scene, model)


@pytest.mark.parametrize("model", MODELS)
def test_all_that_was_copied_during_a_night_gives_one_row_another_noise(model, tmp_path, on_claim):
    """The one copy that nobody can tell from a kill: docs/threat-model.md says what it costs."""
    scene, parts = Scene(model, tmp_path, on_claim), parts_of(model)[-2]
    assert scene.night() is None
    copied = []
    scene.hooks["asked"] = lambda: copied or copied.append(scene.back_up(parts))
    assert scene.night() is None
    scene.put_back(parts)
    for _ in range(NIGHTS - 3):
        assert scene.night() is None
    (nights,) = scene.rows(BOOKS[model][0]).values()
    assert [len(seeds) for _, seeds in nights] == [1, 2, *range(2, NIGHTS - 1)]
    assert 1.0 < scene.epsilon(BOOKS[model][0], again=(2,)) <= 1.2  # of 12 nights


CASES = [(model, parts, phase) for model in MODELS for parts in parts_of(model) for phase in PHASES]


@pytest.mark.parametrize(
    ("model", "parts", "phase", "seed"),
    [
        *((model, parts_of(model)[-2], phase, 1) for model in MODELS for phase in PHASES[:2]),
        *(pytest.param(*case, seed, marks=pytest.mark.slow) for case in CASES for seed in range(3)),
    ],
)
def test_no_night_is_released_twice_whatever_is_put_back(
    model, parts, phase, seed, tmp_path, on_claim
):
    scene = Scene(model, tmp_path, on_claim)
    play(scene, parts, phase, random.Random(f"{model} {parts} {phase} {seed}"))
    require_right(scene, model)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("away", [(), range(1000, 1003)])
def test_a_whole_server_that_was_put_back_ends_the_session(model, away, tmp_path, on_claim):
    """Whoever was silent meanwhile does not know; among more than half of the clients one does."""
    scene, parts = Scene(model, tmp_path, on_claim), parts_of(model)[-2]
    scene.night()
    scene.back_up(parts)
    scene.federation.silent = set(away)
    assert scene.night() is None
    scene.put_back(parts)
    released, scene.federation.silent = len(scene.claims), set()
    for _ in range(4):  # also on nights that are later than all that clients have counted
        assert isinstance(scene.night(), SessionOver)
    scene.federation.silent = set(range(1000, 1000 + NODES)) - set(away)
    assert "TooFewAnswered" in str(scene.night()) or not away
    assert len(scene.claims) == released
    require_right(scene, model)
