"""Drift checks beside training: they come in the right rounds, and change nothing else."""

import logging
import random

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, basket
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedMedian, Strategy

from flwr_kld import Reference
from flwr_kld.clients import answer_drift_queries, answer_predictor_queries
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, PrivatePredictor, Trusted, WithDriftChecks
from flwr_kld.views.text import next_step

ROUNDS = 6
NODES = 7
START = ArrayRecord({"weights": Array(np.zeros(5)), "bias": Array(np.float32([1, -1]))})


def training_app(**options: object) -> ClientApp:
    """Noisy gradient steps towards each node's own optimum; remembers its steps in its state."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        node = context.node_config["partition-id"]
        steps = context.state.setdefault("steps", ConfigRecord({"taken": 0}))
        steps["taken"] += 1
        draw = np.random.default_rng([node, steps["taken"]])
        rate = message.content["config"]["rate"]
        arrays = {
            name: array.numpy() + rate * draw.normal(node, 1, array.shape).astype(array.dtype)
            for name, array in message.content["arrays"].items()
        }
        content = RecordDict(
            {
                "arrays": ArrayRecord({k: Array(v) for k, v in arrays.items()}),
                "metrics": MetricRecord({"loss": float(draw.random()), "num-examples": node + 1}),
            }
        )
        return FlowerMessage(content, reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        mean = float(message.content["arrays"]["weights"].numpy().mean())
        accuracy = mean / (1 + context.node_config["partition-id"])
        content = RecordDict({"m": MetricRecord({"accuracy": accuracy, "num-examples": 10})})
        return FlowerMessage(content, reply_to=message)

    answer_drift_queries(app, basket, FRUIT, **options)
    answer_predictor_queries(app, basket, FRUIT)
    return app


def monitor(**options) -> KLDrift:
    return KLDrift(REFERENCE, Trusted(epsilon=5.0), **options)


def learner(**options) -> PrivatePredictor:
    held = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])
    candidates = Hypotheses({"as the reference": REFERENCE, "turned round": held})
    return PrivatePredictor(BayesMixture(candidates, epsilon=4.0), **options)


def norm(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({"norm": float(np.linalg.norm(arrays["weights"].numpy()))})


def train(strategy: Strategy, grid: InProcessGrid | None = None, **options):
    random.seed(1)  # Flower draws nodes with it, in the order in which floats are then added
    return strategy.start(
        grid or InProcessGrid(training_app(), NODES),
        START,
        **{
            "num_rounds": ROUNDS,
            "timeout": 60,
            "train_config": ConfigRecord({"rate": 0.1}),
            "evaluate_config": ConfigRecord({"rate": 0.0}),
            "evaluate_fn": norm,
            **options,
        },
    )


def bits(arrays: ArrayRecord) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {k: (a.dtype, tuple(a.shape), a.numpy().tobytes()) for k, a in arrays.items()}


def without_checks(metrics: dict[int, MetricRecord]) -> dict[int, dict[str, object]]:
    own = {
        r: {k: v for k, v in m.items() if k.partition(".")[0] not in ("kld", "predictor")}
        for r, m in metrics.items()
    }
    return {r: m for r, m in own.items() if m}


def rounds_with(metrics: dict[int, MetricRecord], name: str) -> list[int]:
    return [r for r, m in metrics.items() if name in m]


def plain(metrics: dict[int, MetricRecord]) -> dict[int, dict[str, object]]:
    return {r: dict(m) for r, m in metrics.items()}


def assert_same_training(checked, alone):
    assert bits(checked.arrays) == bits(alone.arrays)
    assert plain(checked.train_metrics_clientapp) == plain(alone.train_metrics_clientapp)
    assert plain(checked.evaluate_metrics_clientapp) == plain(alone.evaluate_metrics_clientapp)
    assert without_checks(checked.evaluate_metrics_serverapp) == plain(
        alone.evaluate_metrics_serverapp
    )


@pytest.mark.parametrize("make", [FedAvg, FedMedian])
@pytest.mark.parametrize("evaluate_fn", [norm, None])
def test_training_is_the_same_bit_for_bit(make, evaluate_fn):
    alone = train(make(), evaluate_fn=evaluate_fn)
    checked = train(WithDriftChecks(make(), monitor(), every=2), evaluate_fn=evaluate_fn)
    assert_same_training(checked, alone)
    assert len(alone.train_metrics_clientapp) == ROUNDS
    assert bits(alone.arrays) != bits(START)


@pytest.mark.parametrize(
    ("every", "rounds"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (4, [4]), (6, [6]), (7, [])]
)
def test_every_kth_round_is_followed_by_a_check(every, rounds):
    strategy = WithDriftChecks(FedAvg(), monitor(), every=every)
    found = train(strategy).evaluate_metrics_serverapp
    assert rounds_with(found, "kld.estimate") == rounds == list(strategy.reports)
    assert rounds_with(found, "norm") == list(range(ROUNDS + 1))
    assert not rounds_with(found, "kld.failed")
    for server_round in rounds:
        report = strategy.reports[server_round]
        assert found[server_round]["kld.estimate"] == report.reading.estimate
        assert found[server_round]["kld.survivors"] == NODES


def test_a_check_follows_the_training_of_its_round():
    asked = []
    app = training_app()

    def spy(message, context):
        asked.append(message.metadata.message_type.split(".")[0])
        return app(message, context)

    train(WithDriftChecks(FedAvg(), monitor(), every=2), InProcessGrid(spy, NODES), num_rounds=3)
    order = [kind for i, kind in enumerate(asked) if i % NODES == 0]
    assert order == [
        "train", "evaluate", "train", "evaluate", "query", "train", "evaluate"
    ]  # fmt: skip


def test_what_on_report_raises_ends_the_training():
    class Drifted(Exception):
        pass

    def stop(server_round, report):
        raise Drifted(server_round)

    with pytest.raises(Drifted, match="2"):
        train(WithDriftChecks(FedAvg(), monitor(), every=2, on_report=stop))


def test_failed_checks_are_recorded_and_do_not_stop_training():
    heard = []
    strategy = WithDriftChecks(
        FedAvg(), monitor(min_clients=NODES + 1), 2, on_report=lambda *a: heard.append(a)
    )
    checked = train(strategy)
    assert_same_training(checked, train(FedAvg()))
    found = checked.evaluate_metrics_serverapp
    assert rounds_with(found, "kld.failed") == [2, 4, 6]
    assert not rounds_with(found, "kld.estimate")
    assert (heard, strategy.reports) == ([], {})


def test_a_check_that_breaks_does_not_stop_training_and_says_so(caplog):
    class Broken(KLDrift):
        def check(self, grid, *, model):
            raise OverflowError("a bug")

    strategy = WithDriftChecks(FedAvg(), Broken(REFERENCE, Trusted(epsilon=5.0)), every=3)
    with caplog.at_level(logging.ERROR, "flwr.kld"):
        checked = train(strategy)
    assert_same_training(checked, train(FedAvg()))
    assert rounds_with(checked.evaluate_metrics_serverapp, "kld.failed") == [3, 6]
    assert "drift check after round 3 broke" in caplog.text


def test_what_a_check_found_is_logged_where_flower_logs(caplog):
    strategy = WithDriftChecks(FedAvg(), monitor(threshold=0.05), every=3)
    train(strategy)  # nobody has set a level
    assert strategy.reports
    for number, report in strategy.reports.items():
        (line,) = (one for one in caplog.messages if f"after round {number}:" in one)
        assert report.summary in line
        assert next_step(report) in line


def test_the_wrapped_strategys_own_start_runs():
    class Own(FedAvg):
        """Starts from other arrays and takes a round more than it was asked for."""

        def start(self, grid, initial_arrays, num_rounds=3, **options):
            return super().start(grid, ArrayRecord({"w": Array(np.ones(2))}), num_rounds + 1,
                                 **options)  # fmt: skip

    def nothing(server_round, arrays):
        return None

    options = {"num_rounds": 2, "evaluate_config": None, "evaluate_fn": nothing}
    app = ClientApp()

    @app.train()
    def train_handler(message, context):
        content = RecordDict(
            {"a": message.content["arrays"], "m": MetricRecord({"num-examples": 1})}
        )
        return FlowerMessage(content, reply_to=message)

    answer_drift_queries(app, basket, FRUIT)
    strategy = WithDriftChecks(Own(fraction_evaluate=0.0), monitor(), every=3)
    found = train(strategy, InProcessGrid(app, NODES), **options)
    assert list(found.train_metrics_clientapp) == [1, 2, 3]
    assert found.arrays["w"].numpy() == pytest.approx(np.ones(2))
    assert list(found.evaluate_metrics_serverapp) == [3]


def test_own_metrics_keep_their_values_whatever_their_names():
    record = MetricRecord({"kld.estimate": 7.0, "mine": 1})
    strategy = WithDriftChecks(FedAvg(), monitor(), every=1)
    found = train(strategy, evaluate_fn=lambda *_: record).evaluate_metrics_serverapp
    assert found[1]["kld.estimate"] == 7.0
    assert found[1]["kld.survivors"] == NODES
    assert dict(record) == {"kld.estimate": 7.0, "mine": 1}  # nobody wrote into it


@pytest.mark.parametrize("every", [0, -1])
def test_every_is_a_positive_number(every):
    with pytest.raises(ValueError, match="every"):
        WithDriftChecks(FedAvg(), monitor(), every=every)


# ------------------------------------------------------------- a predictor in a check's place


@pytest.mark.parametrize("evaluate_fn", [norm, None])
def test_a_predictor_learns_beside_training_which_stays_the_same(evaluate_fn):
    learning, heard = learner(), {}
    strategy = WithDriftChecks(FedAvg(), learning, every=2, on_report=heard.__setitem__)
    checked = train(strategy, evaluate_fn=evaluate_fn)
    assert_same_training(checked, train(FedAvg(), evaluate_fn=evaluate_fn))
    found = checked.evaluate_metrics_serverapp
    assert rounds_with(found, "predictor.taken") == [2, 4, 6] == list(strategy.reports)
    assert heard == strategy.reports
    assert [report.round for report in heard.values()] == [1, 2, 3]
    assert found[6]["predictor.log_odds"] == heard[6].reading.log_odds
    assert learning.taken == 3 * NODES


def test_checks_and_a_predictor_each_at_their_own_pace_on_one_ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    terms = {"delta": 1e-6, "window_days": 30, "composition": "sum"}
    ledger.set_budget(Budget(100.0, **terms))
    ledger.set_budget(Budget(50.0, population="labels", protects="client", **terms))
    checks = WithDriftChecks(FedAvg(), monitor(ledger=ledger), every=3)
    both = WithDriftChecks(checks, learner(ledger=ledger, budget="labels"), every=2)
    checked = train(both)
    assert_same_training(checked, train(FedAvg()))
    found = checked.evaluate_metrics_serverapp
    assert rounds_with(found, "kld.estimate") == [3, 6] == list(checks.reports)
    assert rounds_with(found, "predictor.taken") == [2, 4, 6] == list(both.reports)
    assert not rounds_with(found, "kld.failed") + rounds_with(found, "predictor.failed")
    assert len(list(ledger.history())) == 2
    assert [entry.key for entry in ledger.history("labels")] == [
        "predictor/1", "predictor/2", "predictor/3"
    ]  # fmt: skip
    assert ledger.spent().epsilon == sum(r.cost.epsilon for r in checks.reports.values())
    assert ledger.spent("labels").epsilon == pytest.approx(3 * 4.0)
    assert both.reports[6].cost.left == pytest.approx(50.0 - 3 * 4.0)


def test_a_predictor_raises_no_drift():
    with pytest.raises(ValueError, match="verdict"):
        WithDriftChecks(FedAvg(), learner(), on_drift=lambda *_: None)
