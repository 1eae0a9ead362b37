"""No answer is given twice, however many copies of a message or of a node's state there are.

Flower hands a node one message at a time. Here a runtime does not: it runs copies at once, or runs
one again in another process from the state as it was before.
"""

import copy
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from federation import FRUIT, REFERENCE, app_of, basket
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from forks import forget_claims

from flwr_kld.clients import (
    AggregatorKey,
    FirstUse,
    aggregate_drift_checks,
    answer_predictor_queries,
    check_memory,
)
from flwr_kld.clients.check_memory import claim
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PrivatePredictor,
    SecureSum,
    TrustedAggregator,
)

NODES, AGGREGATOR = 6, 1006
KEY = AggregatorKey.generate()
ONCE = ("query.drift_sum", "query.drift", "query.drift_aggregate", "query.drift_predict")


def answered(reply: Message) -> bool:
    """Whether a reply gives anything away."""
    content = reply.content
    return "published" in content or any(content.get("phase") or content.get("numbers") or ())


class Repeating(InProcessGrid):
    """Keeps, for every message that must be answered once, how many of its copies were."""

    def __init__(self, app) -> None:
        super().__init__(app, NODES + 1)
        self.contexts[AGGREGATOR].node_config = {"drift-role": "aggregator", "drift-key": "/key"}
        self.answers: list[tuple[str, int]] = []

    def deliver(self, message: Message) -> Message:
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        if kind not in ONCE:
            return super().deliver(message)
        replies, contexts = self.repeat(message, self.contexts[node])
        given = [i for i, reply in enumerate(replies) if answered(reply)]
        self.answers.append((kind, len(given)))
        kept = given[0] if given else 0
        self.contexts[node] = contexts[kept]
        return replies[kept]


class AtOnce(Repeating):
    """Four copies of each message, at once, each with its own copy of the node's state."""

    def repeat(self, message, context):
        ready, contexts = Barrier(4), [copy.deepcopy(context) for _ in range(4)]

        def run(own) -> Message:
            received = copy.deepcopy(message)
            ready.wait()
            return self.app(received, own)

        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(run, contexts)), contexts


class Elsewhere(Repeating):
    """Each message again in a process that knows nothing, from the state before the first."""

    def repeat(self, message, context):
        contexts = [copy.deepcopy(context) for _ in range(2)]
        replies = [self.app(copy.deepcopy(message), contexts[0])]
        remembered = dict(check_memory._claimed)
        check_memory._claimed.clear()
        replies.append(self.app(copy.deepcopy(message), contexts[1]))
        check_memory._claimed.update(remembered)
        return replies, contexts


def federation(loads: list, key: AggregatorKey | None = KEY):
    """One app for every role; `loads` gets an entry whenever a node's records are read."""

    def records(context):
        loads.append(context.node_id)
        return basket(context)

    app = app_of(records, secure_sum=FirstUse(), aggregator=KEY.public)
    answer_predictor_queries(app, records, FRUIT)
    server = ClientApp()
    aggregate_drift_checks(server, key=key)
    return lambda message, context: (server if context.node_id == AGGREGATOR else app)(
        message, context
    )


def predicted(grid):
    del grid.contexts[AGGREGATOR]  # a predictor asks every node
    return PrivatePredictor(
        BayesMixture(Hypotheses({"a": REFERENCE, "b": REFERENCE}), epsilon=1.0)
    ).ask(grid)


def summed(grid):
    shares = Distributed(epsilon=1.0, min_clients=NODES)
    return KLDrift(REFERENCE, shares, aggregation=SecureSum()).check(grid)


def sealed(grid):
    trust = TrustedAggregator(1.0, aggregator=KEY.public)
    return KLDrift(REFERENCE, trust).check(grid)


CHECKS = [
    (summed, {"query.drift_sum": 4 * NODES}),
    (sealed, {"query.drift": NODES, "query.drift_aggregate": 1}),
    (predicted, {"query.drift_predict": NODES}),
]
checks = pytest.mark.parametrize(("check", "messages"), CHECKS)


def one_answer_each(grid: Repeating, messages: dict[str, int]) -> None:
    assert [n for _, n in grid.answers] == [1] * sum(messages.values())
    assert {kind: sum(k == kind for k, _ in grid.answers) for kind in messages} == messages


@checks
def test_of_copies_at_once_one_is_answered(check, messages):
    loads = []
    check(grid := AtOnce(federation(loads)))
    one_answer_each(grid, messages)
    assert sorted(loads) == [*range(1000, 1000 + NODES)]  # refused before anything is computed


@pytest.fixture
def guard(tmp_path, monkeypatch, request):
    protects = "client" if "predicted" in request.node.name else "record"
    file = tmp_path / "guard.toml"
    file.write_text(
        f'receipts = "r.db"\nkey = "k"\nprotects = "{protects}"\n[allow]\n'
        'trust = ["local", "distributed", "trusted-aggregator"]\n'
        'domains = "any"\nplans = "any"\n'
        "[check]\nmax_epsilon = 2.0\nmax_delta = 1e-6\nmin_asked = 1\n"
        "[period]\ndays = 30\nmax_epsilon = 9.0\nmax_delta = 1e-6\n"
    )
    monkeypatch.setenv("FLWR_KLD_GUARD", str(file))


@checks
@pytest.mark.usefixtures("guard")
def test_where_a_guard_keeps_a_file_no_other_process_answers_again(
    check, messages, tmp_path, environment
):
    environment["FLWR_HOME"] = str(tmp_path / "flower")
    KEY.save(tmp_path / "key")
    grid = Elsewhere(federation(loads := [], key=None))
    grid.contexts[AGGREGATOR].node_config["drift-key"] = str(tmp_path / "key")
    check(grid)
    one_answer_each(grid, messages)
    assert sorted(loads) == [*range(1000, 1000 + NODES)]


@checks
def test_an_operator_without_a_guard_may_name_a_file(check, messages, tmp_path):
    KEY.save(tmp_path / "key")
    grid = Elsewhere(federation([], key=None))
    grid.contexts[AGGREGATOR].node_config["drift-key"] = str(tmp_path / "key")
    for node, context in grid.contexts.items():
        context.node_config["drift-memory"] = str(tmp_path / f"{node}.db")
    check(grid)
    one_answer_each(grid, messages)


@pytest.mark.parametrize("place", ["relative.db", 7, "/nowhere/memory.db"])
def test_a_memory_that_cannot_be_used_refuses(place, caplog):
    grid = Elsewhere(federation(loads := []))
    for context in grid.contexts.values():
        context.node_config["drift-memory"] = place
    with caplog.at_level(logging.ERROR), pytest.raises(CheckFailed, match="memory"):
        summed(grid)
    assert not loads
    assert ("/nowhere/memory.db" in caplog.text) == (place == "/nowhere/memory.db")


@pytest.fixture
def context():
    return Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})


def test_a_process_forgets_its_oldest_claims_first(context):
    forget_claims()
    for answer in range(2**17 + 1):
        claim(context, f"{answer}", None)
    for answer in (1, 2, 2**17):
        with pytest.raises(QueryRefused, match="AnsweredAlready"):
            claim(context, f"{answer}", None)
    for forgotten in (0, 1):
        claim(context, f"{forgotten}", None)
    forget_claims()


def test_runs_and_nodes_of_one_process_do_not_answer_for_each_other(context):
    for run, node in ((1, 7), (2, 7), (1, 8)):
        context.run_id, context.node_id = run, node
        claim(context, "the same", None)
        with pytest.raises(QueryRefused, match="AnsweredAlready"):
            claim(context, "the same", None)


def test_a_file_that_is_claimed_in_twice_at_once_gives_one(context, tmp_path):
    def tried(node: int) -> bool:
        own = copy.deepcopy(context)
        own.node_id = node
        try:
            claim(own, "the same", tmp_path / "claims.db")
        except QueryRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(tried, range(8))) == 1
    assert stat.S_IMODE((tmp_path / "claims.db").stat().st_mode) == 0o600


def deployed(tmp_path) -> Repeating:
    """An aggregator with nothing in its config but its role and key."""
    grid = Repeating(federation([], key=None))
    (tmp_path / "key").unlink(missing_ok=True)
    KEY.save(tmp_path / "key")
    grid.contexts[AGGREGATOR].node_config["drift-key"] = str(tmp_path / "key")
    grid.repeat = lambda message, context: ([grid.app(message, context)], [context])
    return grid


def test_an_aggregator_remembers_in_flowers_folder_by_default(tmp_path, environment):
    """Also when its node is started anew within a run."""
    environment["FLWR_HOME"] = str(tmp_path / "flower")
    requests = []
    grid = deployed(tmp_path)
    once = grid.repeat
    grid.repeat = lambda m, c: (requests.append(copy.deepcopy(m)), once(m, c))[1]
    sealed(grid)
    (request,) = (m for m in requests if m.metadata.message_type == "query.drift_aggregate")
    forget_claims()
    anew = grid.contexts[AGGREGATOR]
    anew.state = RecordDict()
    reply = grid.app(request, anew)
    assert "AnsweredAlready" in reply.content["answer"]["answer"]
    (file,) = (tmp_path / "flower" / "flwr-kld").glob("aggregated-*.db")
    assert KEY.public.hex().startswith(file.stem.removeprefix("aggregated-"))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_aggregator_that_can_keep_no_memory_opens_nothing(tmp_path, environment, caplog):
    (tmp_path / "flower").write_text("no folder")
    environment["FLWR_HOME"] = str(tmp_path / "flower")
    with caplog.at_level(logging.ERROR), pytest.raises(CheckFailed, match="memory"):
        sealed(deployed(tmp_path))
    assert str(tmp_path / "flower") in caplog.text
