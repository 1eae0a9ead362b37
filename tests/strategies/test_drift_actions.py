"""From drift to action: proposed or done, once a drift, and right."""

import logging
from functools import partial

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, basket
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries, loss_weights
from flwr_kld.common.errors import CheckFailed
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Pause, Retrain, Reweight, Trusted, WithDriftChecks

NODES = 4
USUAL = (0.4, 0.3, 0.2, 0.1, 0.0, 0.0)
DRIFTED = (0.1, 0.2, 0.3, 0.4, 0.0, 0.0)
START = ArrayRecord({"weights": Array(np.zeros(2))})


class World:
    """A federation whose records drift in some rounds; each round adds 1 to the model."""

    def __init__(self, drifted: set[int]) -> None:
        self.drifted, self.round = drifted, 0
        self.rounds: list[int] = []
        self.weights: list[np.ndarray] = []
        app = ClientApp()

        @app.train()
        def train(message, context):
            if context.node_config["partition-id"] == 0:
                self.round += 1
                self.rounds.append(message.content["config"]["server-round"])
                fruit = FRUIT.names
                self.weights.append(loss_weights(message.content["config"], FRUIT, fruit))
            arrays = ArrayRecord(
                {"weights": Array(message.content["arrays"]["weights"].numpy() + 1)}
            )
            metrics = MetricRecord({"num-examples": 1, "loss": 1.0 / self.round})
            return Message(RecordDict({"a": arrays, "m": metrics}), reply_to=message)

        def records(context):
            return basket(context, 1000, DRIFTED if self.round in self.drifted else USUAL)

        answer_drift_queries(app, records, FRUIT)
        self.grid = InProcessGrid(app, NODES)

    def run(self, on_drift, rounds=6, make=KLDrift, **options):
        monitor = make(REFERENCE, Trusted(epsilon=5.0), threshold=0.05)
        options = {"every": 1, "suggest": False, "cooldown": 0, **options}
        strategy = WithDriftChecks(
            FedAvg(fraction_evaluate=0.0, min_train_nodes=NODES),
            monitor,
            on_drift=on_drift,
            **options,
        )
        self.heard: list[tuple[int, MetricRecord]] = []

        def evaluate(server_round, arrays):
            return MetricRecord({"model": float(arrays["weights"].numpy()[0])})

        result = strategy.start(self.grid, START, rounds, evaluate_fn=evaluate)
        return strategy, result


def model(result) -> float:
    return float(result.arrays["weights"].numpy()[0])


# ----------------------------------------------------------------------------- when it happens


@pytest.mark.rate(1e-6)
def test_an_action_comes_once_a_drift():
    heard = []
    strategy, _ = World({2, 3, 5, 6}).run(lambda *found: heard.append(found))
    assert list(strategy.actions) == [2, 5]
    assert [number for number, _ in heard] == [2, 5]
    assert all(report.drifted for _, report in heard)


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize(("cooldown", "rounds"), [(0, [1, 3, 5]), (1, [1, 3, 5]), (2, [1, 5])])
def test_after_an_action_checks_cool_down(cooldown, rounds):
    strategy, _ = World({1, 3, 5}).run(lambda *_: None, cooldown=cooldown)
    expected = rounds if cooldown < 2 else [1, 5]
    assert list(strategy.actions) == expected


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("action", [Retrain(), Pause(), Reweight("labels")])
def test_an_action_is_only_proposed_by_default(action, caplog):
    world = World({2, 3, 4, 5, 6})
    with caplog.at_level(logging.WARNING, "flwr.kld"):
        strategy, result = world.run(action, suggest=True)
    assert strategy.actions == {2: action}
    assert f"{action} is proposed" in caplog.text
    assert (world.round, model(result)) == (6, 6.0)
    assert all((weights == 1).all() for weights in world.weights)


@pytest.mark.rate(1e-6)
def test_without_drift_nothing_is_done():
    world = World(set())
    strategy, result = world.run(Pause())
    assert strategy.actions == {}
    assert (world.round, model(result)) == (6, 6.0)


def test_a_check_that_fails_is_no_drift():
    class Failing(KLDrift):
        def check(self, grid, *, model):
            raise CheckFailed("nobody is there")

    strategy, _ = World({1, 2}).run(Pause(), make=Failing)
    assert strategy.actions == {}


# ----------------------------------------------------------------------------------- what it does


@pytest.mark.rate(1e-6)
def test_rounds_follow_a_drift_beyond_the_plan():
    world = World({5, 6, 7, 8})
    strategy, result = world.run(Retrain(rounds=3))
    assert strategy.actions == {5: Retrain(3)}
    assert (world.round, model(result)) == (8, 8.0)
    assert list(result.train_metrics_clientapp) == list(range(1, 9))
    served = result.evaluate_metrics_serverapp
    assert list(served) == list(range(9))
    assert [metrics["model"] for metrics in served.values()] == list(range(9))
    assert list(strategy.reports) == list(range(1, 9))


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize(("drifts", "last"), [({1, 2}, 6), ({6, 8}, 11)])
def test_rounds_that_were_planned_are_enough_and_a_later_drift_brings_more(drifts, last):
    world = World(drifts)
    _, result = world.run(Retrain(rounds=3))
    assert (world.round, model(result)) == (last, float(last))
    assert list(result.train_metrics_clientapp) == list(range(1, last + 1))


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("drift", [3, 6])
def test_a_pause_ends_training_with_the_model_of_its_round(drift):
    world = World({drift})
    _, result = world.run(Pause())
    assert (world.round, model(result)) == (drift, float(drift))
    assert list(result.evaluate_metrics_serverapp) == list(range(drift + 1))
    assert result.evaluate_metrics_serverapp[drift]["kld.drift"] == 1


@pytest.mark.rate(1e-6)
def test_a_pause_of_one_of_two_monitors_ends_both():
    world = World({2, 3, 4, 5, 6})
    monitor = partial(KLDrift, REFERENCE, Trusted(epsilon=5.0), threshold=0.05)
    inner = WithDriftChecks(FedAvg(fraction_evaluate=0.0), monitor(), every=7)
    outer = WithDriftChecks(inner, monitor(), every=1, on_drift=Pause(), suggest=False)
    result = outer.start(world.grid, START, 6)
    assert (world.round, model(result)) == (2, 2.0)


@pytest.mark.rate(1e-6)
def test_weights_turn_the_clients_records_into_the_references():
    world = World({2, 3, 4, 5, 6})
    world.run(Reweight("labels"))
    assert [bool((weights == 1).all()) for weights in world.weights] == [True, True] + 4 * [False]
    weights = world.weights[-1]
    assert np.allclose(np.array(DRIFTED[:4]) * weights, USUAL[:4], atol=0.02)


def test_weights_of_another_domain_are_refused():
    config = ConfigRecord({"drift-loss-weights": [1.0] * 6, "drift-loss-weights-domain": "another"})
    with pytest.raises(ValueError, match="domain"):
        loss_weights(config, FRUIT, ["apple"])
    mine = {"drift-loss-weights-domain": FRUIT.fingerprint}
    for weights in ([1.0] * 5, [1.0] * 5 + [-1.0], [1.0] * 5 + [float("nan")]):
        with pytest.raises(ValueError, match="weights"):
            loss_weights(ConfigRecord({"drift-loss-weights": weights, **mine}), FRUIT, ["apple"])


def test_an_action_needs_a_verdict_and_a_column():
    decides = KLDrift(REFERENCE, Trusted(epsilon=5.0), threshold=0.05)
    with pytest.raises(ValueError, match="verdict"):
        WithDriftChecks(FedAvg(), KLDrift(REFERENCE, Trusted(epsilon=5.0)), on_drift=Pause())
    with pytest.raises(ValueError, match="column"):
        WithDriftChecks(FedAvg(), decides, on_drift=Reweight("age"))
    with pytest.raises(ValueError, match="on_drift"):
        WithDriftChecks(FedAvg(), decides, on_drift="retrain")
    with pytest.raises(ValueError, match="rounds"):
        Retrain(rounds=0)


# ------------------------------------------------------------------ a model is repaired by a report


@pytest.mark.slow
@pytest.mark.rate(1e-4)
def test_a_report_repairs_a_model_under_label_shift():
    """Digits whose mix of labels has shifted: probabilities divided by the weights fit again."""
    images, labels = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)

    def noisy(rows):
        return ((rows > 8) ^ (generator.random(rows.shape) < 0.22)).astype(float)

    domain = Labels([str(digit) for digit in range(10)])
    gains = []
    for _ in range(20):
        order = generator.permutation(len(labels))
        known, others = order[:900], order[900:]
        taught = np.repeat(labels[known], 4)
        learned = LogisticRegression(max_iter=200, C=0.05)
        learned.fit(noisy(np.repeat(images[known], 4, 0)), taught)
        mix = generator.dirichlet(np.full(10, 0.35))
        each = mix[labels[others]] / np.bincount(labels[others], minlength=10)[labels[others]]
        rows = generator.choice(others, 2000, p=each / each.sum())
        shifted, truth = noisy(images[rows]), labels[rows]
        parts = np.array_split(truth, 10)
        app = ClientApp()
        answer_drift_queries(
            app, lambda context, parts=parts: parts[context.node_config["partition-id"]], domain
        )
        reference = Reference.from_counts(domain, np.bincount(taught, minlength=10))
        report = KLDrift(reference, Trusted(epsilon=1.0)).check(InProcessGrid(app, 10))
        weights = loss_weights(Reweight("labels").config(report, reference), domain, range(10))
        guessed = learned.predict_proba(shifted)
        before = (guessed.argmax(1) == truth).mean()
        gains.append(((guessed / weights).argmax(1) == truth).mean() - before)
    assert sum(gain > 0 for gain in gains) >= 19
    assert np.mean(gains) >= 0.12
    print(f"gains: mean {np.mean(gains):.3f}, least {min(gains):.3f}")
