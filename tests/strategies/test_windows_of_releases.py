"""A guard's limit holds for what is *released* in any window, whenever it was answered.

Servers keep boxes, leave the victim out of the nights of its sessions, and hand over late; time is
virtual. What was released, and when, is recorded where it is published.
"""

import copy
import math
import random
import time
from pathlib import Path

import pytest
from federation import REFERENCE, app_of, grid_of
from flwr.app import Message
from flwr.clientapp import ClientApp
from forks import forget_claims
from sealed_federation import KEY

from flwr_kld.clients import AggregatorLimits, aggregate_drift_checks
from flwr_kld.common.errors import CheckFailed
from flwr_kld.guard import verify
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Standing, Trusted, TrustedAggregator, exchange
from flwr_kld.trust.envelopes import PUBLISHED, TERMS
from flwr_kld.trust.terms import Terms

DAY, VICTIM, NODES = 24 * 60 * 60, 1000, 4
PERIOD, LIMIT, MOST, DELTA = 30, 16.0, 8.0, 1e-6
GUARD = f"""
receipts = "receipts.db"
key = "node.key"
[allow]
trust = ["trusted", "trusted-aggregator"]
domains = "any"
plans = "any"
[check]
max_epsilon = {MOST}
max_delta = {DELTA}
min_asked = 2
[period]
days = {PERIOD}
max_epsilon = {LIMIT}
max_delta = 1e-3
"""


class World:
    """A victim with a guard, an aggregator, and a clock that a test turns."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1.8e9
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.folder, self.silent, self.kept = folder, set(), []
        self.released: list[tuple[float, str, float]] = []  # When, of what, and its epsilon
        (folder / "guard.toml").write_text(GUARD)
        self.victim_in: dict[str, float] = {}  # Since when it is in checks and sessions
        load, options = lambda _: ["apple"] * 9, {"record_ids": lambda _: list(range(9))}
        app = app_of(load, aggregator=KEY.public, **options)
        limits = AggregatorLimits(min_clients=2, memory=folder / "aggregated.db")
        adds_up = ClientApp()
        aggregate_drift_checks(adds_up, key=KEY, limits=limits)

        def handle(message, context):
            return (adds_up if context.node_id == 1000 + NODES else app)(message, context)

        self.sealed = InProcessGrid(handle, NODES + 1, lose=self._lost)
        self.plain = grid_of(app_of(load, **options), NODES, self._lost)
        for grid in (self.sealed, self.plain):
            grid.app = self._watched(grid.app)
            for node, context in grid.contexts.items():
                if node < 1000 + NODES:
                    context.node_config["drift-memory"] = str(folder / f"{node}.db")
            grid.contexts[VICTIM].node_config["drift-guard"] = str(folder / "guard.toml")
        self.keeps = False

    def _lost(self, message: Message) -> bool:
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        if kind == "query.drift_aggregate" and self.keeps:
            self.kept.append(copy.deepcopy(message.content))
            return True
        return kind == "query.drift" and node in self.silent

    def _watched(self, handle):
        def handled(message: Message, context):
            before = self.receipts() if context.node_id == VICTIM else 0
            reply = handle(message, context)
            if reply.has_content() and TERMS in message.content:
                terms = Terms.from_config(message.content[TERMS])
                if context.node_id == VICTIM and self.receipts() > before:
                    self.victim_in.setdefault(_name(terms), self.now)
                if PUBLISHED in reply.content:
                    self.released.append((self.now, _name(terms), terms.guarantee.epsilon))
            return reply

        return handled

    def receipts(self) -> int:
        file = self.folder / "receipts.db"
        return len(verify(file).receipts) if file.exists() else 0

    def check(self, grid, trust) -> KLDrift:
        """Ask once; what a server that adds the noise publishes is released by it."""
        monitor = KLDrift(REFERENCE, trust, timeout=60.0)
        self.ask(grid, monitor)
        return monitor

    def ask(self, grid, monitor: KLDrift) -> None:
        told, push = [], grid.push_messages

        def pushed(messages):
            told.extend(messages := list(messages))
            return push(messages)

        grid.push_messages = pushed
        try:
            monitor.check(grid)
        except CheckFailed:
            return
        finally:
            grid.push_messages = push
        if monitor.trust.source == "trusted":
            terms = next(Terms.from_config(m.content[TERMS]) for m in told if TERMS in m.content)
            self.released.append((self.now, _name(terms), terms.guarantee.epsilon))

    def hand_over(self) -> None:
        """Give the aggregator all that was kept."""
        self.keeps, aggregator = False, 1000 + NODES
        for content in self.kept:
            message = Message(copy.deepcopy(content), aggregator, "query.drift_aggregate")
            self.sealed.send_and_receive([message])

    def worst(self) -> float:
        """The most epsilon of what was released of the victim in any window of the guard's."""
        mine = [one for one in self.released if one[0] >= self.victim_in.get(one[1], math.inf)]
        return max(
            (sum({name: eps for when, name, eps in mine if first <= when <= first + PERIOD * DAY}
                 .values()) for first, _, _ in mine),
            default=0.0,
        )  # fmt: skip


def _name(terms: Terms) -> str:
    return terms.session or terms.check


@pytest.fixture
def world(tmp_path, monkeypatch) -> World:
    return World(tmp_path, monkeypatch)


def sealed(epsilon: float = MOST) -> TrustedAggregator:
    return TrustedAggregator(epsilon, DELTA, aggregator=KEY.public)


def test_boxes_that_were_kept_are_not_opened_later(world):
    for _ in range(4):
        world.keeps = True
        world.check(world.sealed, sealed())
        world.now += 31 * DAY
    assert len(world.kept) == 4
    assert world.receipts() == 4
    world.hand_over()
    assert not world.released


def test_a_night_is_not_released_again_by_an_aggregator_that_was_put_back_whole(world):
    """Its claims and its book are of before that night, and the server has kept the boxes."""
    monitor = world.check(world.sealed, Standing(sealed(), nights=90))
    copies = {path: path.read_bytes() for path in world.folder.glob("aggregated.db*")}
    handled = world.sealed.app

    def keeping(message: Message, context):
        if message.metadata.message_type == "query.drift_aggregate":
            world.kept.append(copy.deepcopy(message.content))
        return handled(message, context)

    world.sealed.app = keeping
    world.ask(world.sealed, monitor)
    world.sealed.app = handled
    assert [len(world.released), len(world.kept)] == [2, 1]
    world.now += 5 * 60 * 60
    for path in world.folder.glob("aggregated.db*"):
        path.unlink()
    for path, content in copies.items():
        path.write_bytes(content)
    forget_claims()  # it is another process, of another run
    for context in world.sealed.contexts.values():
        context.state.clear()
    world.hand_over()
    assert len(world.released) == 2


def test_a_client_takes_no_question_that_stays_open_for_weeks(world, monkeypatch):
    monkeypatch.setattr(exchange, "last_moment", lambda _: int(world.now + 8 * DAY))
    world.check(world.sealed, Standing(sealed(), nights=90))
    world.check(world.sealed, sealed())
    assert world.receipts() == 0


def test_nights_of_sessions_are_charged_until_their_end(world):
    """A session a month; their other nights are run in one day, without the victim."""
    monitors = []
    for month in range(4):
        trust = Standing(sealed(), nights=90, name=f"{month}")
        monitors.append(world.check(world.sealed, trust))
        world.now += 31 * DAY
    assert world.receipts() < 4
    world.silent = {VICTIM}
    for monitor in monitors:
        for _ in range(3):
            world.ask(world.sealed, monitor)
    assert 0 < world.worst() <= LIMIT


def test_a_session_that_is_over_by_the_calendar_is_followed_by_another(world):
    trust = Standing(sealed(), nights=90, days=10, name="short")
    monitor = world.check(world.sealed, trust)
    world.ask(world.sealed, monitor)
    world.now += 11 * DAY
    world.ask(world.sealed, monitor)
    first, second, third = (name for _, name, _ in world.released)
    assert first == second != third


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 50), *(pytest.param(s, 400, marks=pytest.mark.slow) for s in range(1, 7))],
)
def test_no_window_of_releases_holds_more_than_the_limit(world, seed, steps):
    """Honest and lying servers take turns for 400 days."""
    fate, sessions, began = random.Random(seed), [], world.now
    while world.now < began + 400 * DAY:
        world.silent = {VICTIM} if fate.random() < 0.4 else set()
        world.keeps = fate.random() < 0.3
        epsilon = fate.choice([2.0, 4.0, 8.0])
        what = fate.randrange(6)
        if what == 0:
            world.check(world.sealed, sealed(epsilon))
        elif what == 1:
            world.check(world.plain, Trusted(epsilon, DELTA))
        elif what == 2:
            grid = fate.choice([world.sealed, world.plain])
            nights = fate.choice([5, 30, 90])
            trust = sealed(epsilon) if grid is world.sealed else Trusted(epsilon, DELTA)
            book, name = world.folder / "standing.db", f"{len(sessions)}"
            days = fate.choice([None, 3, 60])
            standing = Standing(trust, nights=nights, name=name, book=book, days=days)
            sessions.append((grid, world.check(grid, standing)))
        elif what == 3 and sessions:
            for _ in range(fate.randrange(1, 4)):
                world.ask(*fate.choice(sessions))
        elif what == 4 and fate.random() < 0.3:
            world.hand_over()
        else:
            world.now += fate.random() * 2 * 400 * DAY / steps
        world.now += fate.random() * 400 * DAY / steps
        assert world.worst() <= LIMIT
    assert world.worst() > LIMIT / 2
