"""Training and checks in one budget: what is spent, the round that never starts, and kills."""

import math
import os
import random
import signal
from collections import Counter
from functools import partial

import numpy as np
import pytest
import sqlalchemy as sa
from federation import FRUIT, REFERENCE, basket
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import GaussianPrivacyEvent, PrivacyAccountant, SamplingMethod
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from forks import forked, joined
from renyi import order_of, renyi_of_gaussian, renyi_of_table

from flwr_kld.ask.cohort import Participant
from flwr_kld.clients import answer_drift_queries
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, BudgetExhausted, Charge, Cost, Kind, Ledger
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, LedgerAccountant, Trusted, WithDriftChecks

NODES = 5
NOISE = 3.0
"""Noise multiplier of a round."""
START = ArrayRecord({"weights": Array(np.zeros(5))})


def training_app(seen: list[str], fails=lambda node, server_round: False) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message, context):
        server_round = message.content["config"]["server-round"]
        seen.append(f"train {server_round}")
        if fails(context.node_config["partition-id"], server_round):
            raise RuntimeError("not today")
        moved = message.content["arrays"]["weights"].numpy() + 1
        content = RecordDict(
            {
                "arrays": ArrayRecord({"weights": Array(moved)}),
                "metrics": MetricRecord({"num-examples": 1}),
            }
        )
        return Message(content, reply_to=message)

    answer_drift_queries(app, basket, FRUIT)
    return app


def private(
    accountant: LedgerAccountant, wrapper=DifferentialPrivacyServerSideFixedClipping, noise=NOISE
):
    return wrapper(
        FedAvg(fraction_evaluate=0.0, min_train_nodes=NODES),
        noise_multiplier=noise,
        clipping_norm=1.0,
        num_sampled_clients=NODES,
        accountant=accountant,
    )


@pytest.fixture
def url(tmp_path, ledger_at) -> str:
    return ledger_at(tmp_path / "drift.db")


def budgeted(url: str, epsilon: float, **terms) -> Ledger:
    ledger = Ledger(url)
    ledger.set_budget(Budget(epsilon, 1e-6, **{"composition": "renyi", **terms}))
    return ledger


def train(strategy, seen, rounds=4, **options):
    grid = InProcessGrid(training_app(seen, **options), NODES)
    return strategy(grid).start(grid, START, num_rounds=rounds, timeout=60)


# ------------------------------------------------------------- what is spent, computed otherwise


@pytest.mark.parametrize(
    "wrapper",
    [DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping],
)
@pytest.mark.parametrize("protects", ["client", "record"])
def test_what_rounds_spend_is_their_renyi_divergence(url, protects, wrapper):
    ledger, seen = budgeted(url, 20.0, protects=protects), []
    result = train(lambda grid: private(LedgerAccountant(ledger, grid), wrapper), seen)
    assert Counter(seen) == {f"train {r}": NODES for r in (1, 2, 3, 4)}
    assert result.arrays is not None
    order, taken = order_of(20.0, 0.5e-6)
    noise = NOISE if protects == "client" else NOISE / 2
    wanted = taken + 4 * renyi_of_gaussian(order, noise)
    assert ledger.spent().epsilon == pytest.approx(wanted, rel=1e-9)
    assert [entry.kind for entry in ledger.history()] == [Kind.TRAINING] * 4
    assert {entry.state for entry in ledger.history()} == {"settled"}


def test_rounds_and_checks_spend_one_budget(url):
    ledger, seen = budgeted(url, 20.0), []
    checks = KLDrift(REFERENCE, Trusted(epsilon=0.5), ledger=ledger)
    train(
        lambda grid: WithDriftChecks(private(LedgerAccountant(ledger, grid)), checks, every=2), seen
    )
    kinds = [str(entry.kind) for entry in ledger.history()]
    assert kinds == ["training", "training", "check", "training", "training", "check"]
    order, taken = order_of(20.0, 0.5e-6)
    wanted = taken + 4 * renyi_of_gaussian(order, NOISE / 2)
    wanted += 2 * renyi_of_table(order, checks.trust.cost())
    assert ledger.spent().epsilon == pytest.approx(wanted, rel=1e-9)


def test_in_a_schedule_fixed_in_advance_rounds_compose_as_one_gaussian(url):
    ledger, seen = budgeted(url, 50.0, composition="pld", protects="client"), []
    train(lambda grid: private(LedgerAccountant(ledger, grid)), seen)
    mu = 2 / NOISE  # of four rounds

    def delta(epsilon):
        def upper(x):
            return math.erfc(x / math.sqrt(2)) / 2

        beyond = upper(epsilon / mu + mu / 2)
        return upper(epsilon / mu - mu / 2) - math.exp(epsilon) * beyond

    spent = ledger.spent().epsilon
    assert delta(spent) <= 1e-6
    assert delta(spent * (1 - 2e-4)) > 1e-6


def test_epsilons_that_are_added_up_are_each_rounds_own(url):
    ledger, seen = budgeted(url, 50.0, composition="sum", protects="client"), []
    train(lambda grid: private(LedgerAccountant(ledger, grid)), seen)
    each = next(ledger.history()).release.asked
    assert ledger.spent().epsilon == pytest.approx(4 * float(each.epsilon), rel=1e-12)
    assert ledger.spent().delta == pytest.approx(4e-9, rel=1e-12)


# ------------------------------------------------------------------------------------- the edge


@pytest.mark.parametrize("composition", ["sum", "pld", "renyi"])
def test_the_round_that_would_pass_the_budget_never_starts(url, composition):
    ledger, seen = budgeted(url, 9.0, composition=composition, protects="client"), []
    with pytest.raises(PrivacyBudgetExhausted):
        train(lambda grid: private(LedgerAccountant(ledger, grid), noise=1.5), seen, rounds=50)
    *done, refused = ledger.history()
    assert 2 <= len(done) < 49
    assert max(seen, key=lambda line: int(line.split()[1])) == f"train {len(done)}"
    assert ledger.spent().epsilon <= 9.0
    assert ledger.room_for(done[-1]) == 0
    assert (refused.kind, refused.failure.kind, refused.release) == (Kind.TRAINING, "budget", None)


def test_checks_that_spent_the_budget_stop_training(url):
    ledger, seen = budgeted(url, 1.0, composition="sum"), []
    checks = KLDrift(REFERENCE, Trusted(epsilon=0.9), ledger=ledger)
    checks.check(InProcessGrid(training_app(seen), NODES))
    with pytest.raises(PrivacyBudgetExhausted):
        train(lambda grid: private(LedgerAccountant(ledger, grid), noise=100.0), seen)
    assert not seen


def test_a_round_that_released_no_model_is_spent_and_the_next_one_runs(url):
    ledger, seen = budgeted(url, 50.0), []
    accountants = []

    def strategy(grid):
        accountants.append(LedgerAccountant(ledger, grid))
        return private(accountants[0])

    train(strategy, seen, fails=lambda node, server_round: (node, server_round) == (1, 2))
    assert [entry.state for entry in ledger.history()] == [
        "settled",
        "failed",
        "settled",
        "settled",
    ]
    assert all(entry.release for entry in ledger.history())
    assert accountants[0].num_releases == 3


# ------------------------------------------------------------------------- as Flower's accountant


def test_it_is_an_accountant_as_flower_defines_it(url):
    grid = InProcessGrid(ClientApp(), NODES)
    ledger = budgeted(url, 20.0)
    accountant: PrivacyAccountant = LedgerAccountant(url, grid)
    assert accountant.config.max_epsilon == 20.0
    assert accountant.config.population_size == NODES
    assert accountant.config.sampling_method is SamplingMethod.NO_AMPLIFICATION
    assert accountant.get_privacy_spent().epsilon == 0
    event = GaussianPrivacyEvent(NOISE, NODES, NODES)
    with pytest.raises(ValueError, match="reserved"):
        accountant.compose(event)
    assert not accountant.would_exceed(event)
    with pytest.raises(ValueError, match="reserved"):
        accountant.compose(GaussianPrivacyEvent(1.0, NODES, NODES))
    accountant.compose(event)
    spent = accountant.get_privacy_spent()
    assert (spent.epsilon, spent.num_releases) == (ledger.spent().epsilon, 1)
    assert accountant.get_epsilon(1e-6) == accountant.get_epsilon(1e-3) == spent.epsilon
    assert accountant.get_epsilon(1e-9) == math.inf
    assert accountant.get_delta(spent.epsilon) == 1e-6
    assert accountant.get_delta(spent.epsilon / 2) == 1
    accountant.load_state_dict(accountant.state_dict())
    with pytest.raises(ValueError, match="restore"):
        accountant.load_state_dict({"schema_version": 1})
    for options in ({"count": 2}, {"max_epsilon": 1.0}):
        with pytest.raises(ValueError, match="one round"):
            accountant.would_exceed(event, **options)


def test_a_node_that_left_is_charged_for_what_may_have_asked_it(url):
    ledger = budgeted(url, 50.0)
    grid = InProcessGrid(ClientApp(), NODES)
    accountant = LedgerAccountant(ledger, grid)
    event = GaussianPrivacyEvent(NOISE, NODES, NODES)
    assert not accountant.would_exceed(event)
    del grid.contexts[1000]
    assert not accountant.would_exceed(event)
    assert [entry.release.clients for entry in ledger.history()] == [NODES, NODES]


def test_a_budget_without_delta_is_refused(url):
    ledger = Ledger(url)
    ledger.set_budget(Budget(1.0, 0.0))
    with pytest.raises(ValueError, match="delta"):
        LedgerAccountant(ledger, InProcessGrid(ClientApp(), NODES))


# ---------------------------------------------------------------------------- whoever looks first


def epsilon_of_gaussian(noise: float, delta: float) -> float:
    """Least epsilon of one round, by its exact delta (Balle & Wang 2018, Theorem 8)."""

    def upper(x):
        return math.erfc(x / math.sqrt(2)) / 2

    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        near, far = middle * noise - 1 / (2 * noise), middle * noise + 1 / (2 * noise)
        kept = upper(near) - math.exp(min(middle, 700)) * upper(far) <= delta
        low, high = (low, middle) if kept else (middle, high)
    return high


@pytest.mark.parametrize("composition", ["sum", "renyi"])
@pytest.mark.parametrize("schedules", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_who_picks_rounds_by_reports_never_passes_the_budget(url, composition, schedules):
    """Each next release is chosen by what came before, the edge included."""
    chance, tried = random.Random(composition), Counter()
    grid = InProcessGrid(ClientApp(), NODES)
    ledger = Ledger(url)
    for schedule in range(schedules):
        population, epsilon = f"p{schedule}", chance.choice([2.0, 5.0, 12.0])
        ledger.set_budget(Budget(epsilon, 1e-6, population=population, composition=composition))
        accountant = LedgerAccountant(ledger, grid, population)
        order, taken = order_of(epsilon, 0.5e-6)
        spent = taken if composition == "renyi" else 0.0
        noise, seen, rounds = 3.0, chance.gauss(0, 1), 0
        for _ in range(12):  # greedier after each report that it likes, and after each refusal
            noise = max(0.3, noise * (0.6 if seen > 0 else 1.4))
            event, half = GaussianPrivacyEvent(noise, NODES, NODES), noise / 2
            if composition == "renyi":
                more = renyi_of_gaussian(order, half)
            else:
                more = epsilon_of_gaussian(half, 1e-9)
            refused = accountant.would_exceed(event)
            assert refused == (spent + more > epsilon)
            tried[refused] += 1
            if refused:
                noise *= 2.5
                continue
            if chance.random() < 0.8:
                accountant.compose(event)
            spent, rounds, seen = spent + more, rounds + 1, chance.gauss(0, 1)
        at_the_end = ledger.spent(population).epsilon
        assert at_the_end <= epsilon
        assert at_the_end == pytest.approx(spent if rounds else 0.0, rel=1e-8)
    assert min(tried[True], tried[False]) > 2 * schedules


@pytest.mark.parametrize(("first", "composition"), [("checks", "sum"), ("training", "renyi")])
def test_who_is_ranked_second_stops_before_what_is_kept(url, first, composition):
    """Whoever picks by reports what to ask next, of both kinds, at any size, up to the edge."""
    chance, ledger = random.Random(f"{first} {composition}"), Ledger(url)
    grid, stopped = InProcessGrid(ClientApp(), NODES), Counter()
    for schedule in range(4):
        population, kept, seen = f"p{schedule}", chance.choice([1.0, 4.0]), chance.gauss(0, 1)
        terms = {"population": population, "composition": composition}
        ledger.set_budget(Budget(10.0, 1e-6, first=first, kept=kept, **terms))
        accountant, epsilon, noise = LedgerAccountant(ledger, grid, population), 0.5, 8.0
        assert accountant.config.max_epsilon == 10.0 - kept * (first == "checks")
        for step in range(12):
            before = ledger.spent(population).epsilon
            who = chance.choice(["checks", "training"])
            if who == "training":
                noise = max(0.5, noise * (0.7 if seen > 0 else 1.2))
                refused = accountant.would_exceed(GaussianPrivacyEvent(noise, NODES, NODES))
            else:
                epsilon = min(3.0, epsilon * (1.4 if seen > 0 else 0.8))
                cost = Cost.claimed("check", Guarantee(epsilon))
                clients = [str(Participant(node)) for node in grid.get_node_ids()]
                refused = None
                try:
                    ledger.reserve(f"{step}", Charge(cost, clients), population=population)
                except BudgetExhausted as error:
                    refused = error
            spent = ledger.spent(population)
            most = 10.0 if who == first else 10.0 - kept
            if who == "checks" and refused:
                assert refused.left == pytest.approx(max(most - before, 0.0), abs=1e-8)
            assert spent.epsilon == before if refused else before < spent.epsilon <= most
            for_checks = 10.0 - kept * (first == "training")
            assert spent.left == pytest.approx(max(for_checks - spent.epsilon, 0.0), abs=1e-9)
            assert spent.left == spent.kinds["checks"][1]
            stopped[who, bool(refused), before > 10.0 - kept] += 1
            seen = chance.gauss(0, 1)
        alone = ledger.spent(population).kinds
        assert all(epsilon <= ledger.spent(population).epsilon for epsilon, _ in alone.values())
    second = "training" if first == "checks" else "checks"
    assert stopped[first, False, True] > 0  # what was kept is there for whom it was kept
    assert stopped[second, False, True] == 0  # and nobody else has it
    assert stopped[second, True, True] > 0


def test_training_stops_where_checks_begin_and_they_go_on(url):
    ledger, seen = budgeted(url, 9.0, composition="sum", kept=2.0), []
    with pytest.raises(PrivacyBudgetExhausted):
        train(lambda grid: private(LedgerAccountant(ledger, grid), noise=8.0), seen, rounds=50)
    assert 5.0 < ledger.spent().epsilon <= 7.0
    checks = KLDrift(REFERENCE, Trusted(epsilon=1.0), ledger=ledger)
    checks.check(InProcessGrid(training_app(seen), NODES))
    assert ledger.spent().epsilon > 6.0
    assert ledger.spent().kinds["checks"][0] == 1.0


# ------------------------------------------------------------------------------------------ kills


@pytest.mark.parametrize(("stride", "least"), [(6, 8), pytest.param(1, 40, marks=pytest.mark.slow)])
def test_kill_at_every_step_of_training_beside_checks(url, tmp_path, stride, least):
    """The server dies at its 1st, 2nd, … step; a round is in the books once, if it left at all."""
    Ledger(url).set_budget(Budget(10_000.0, 1e-6, composition="renyi"))
    log = tmp_path / "log"
    log.touch()
    writing = os.open(log, os.O_APPEND | os.O_WRONLY)

    def run(number: int, steps) -> None:
        def die(*_):
            if next(steps, 1) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        ledger = Ledger(url)
        for happening in ("before_cursor_execute", "commit"):
            sa.event.listen(ledger._database._engine, happening, die)
        seen: list[str] = []
        app = training_app(seen)

        def logged(message, context):
            kind = message.metadata.message_type.split(".")[0]
            round_of = message.content.get("config", {}).get("server-round", 0)
            if message.metadata.dst_node_id == 1000:
                os.write(writing, f"asked {number} {kind} {round_of}\n".encode())
                die()
            return app(message, context)

        grid = InProcessGrid(logged, NODES)
        checks = KLDrift(REFERENCE, Trusted(epsilon=0.5), ledger=ledger)
        strategy = WithDriftChecks(private(LedgerAccountant(ledger, grid)), checks, every=1)
        result = strategy.start(grid, START, num_rounds=1, timeout=60)
        assert result.arrays is not None
        os.write(writing, f"released {number}\n".encode())

    killed = 0
    while True:
        (code,) = joined(forked(partial(run, killed, iter(range(killed * stride, -1, -1)))))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
    assert killed >= least
    lines = Counter(line.rsplit(" ", 1)[0] if line.startswith("asked") else line
                    for line in log.read_text().splitlines())  # fmt: skip
    ledger = Ledger(url)
    history = list(ledger.history())
    by_kind = Counter(str(entry.kind) for entry in history if entry.release)
    asked = Counter(line.split()[2] for line in lines if line.startswith("asked"))
    assert asked["train"] <= by_kind["training"]  # nothing that was asked is lost …
    assert asked["query"] <= by_kind["check"]
    assert len({entry.key for entry in history}) == len(history)
    order, taken = order_of(10_000.0, 0.5e-6)
    cost = KLDrift(REFERENCE, Trusted(epsilon=0.5)).trust.cost()
    wanted = taken + by_kind["training"] * renyi_of_gaussian(order, NOISE / 2)
    wanted += by_kind["check"] * renyi_of_table(order, cost)
    assert ledger.spent().epsilon == pytest.approx(wanted, rel=1e-9)  # … or charged twice
    assert by_kind["training"] <= killed + 1
    print(f"{killed} kills")
