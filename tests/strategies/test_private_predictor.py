"""Rounds of a predictor through Flower's own messages: it learns, it caps, it rejects lies."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from scipy.stats import binom

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_predictor_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Budget, BudgetExhausted, Ledger
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, PrivatePredictor, RotatingCohort, Trusted
from flwr_kld.trust.envelopes import REPORT

NOW = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])
CANDIDATES = Hypotheses({"as the reference": REFERENCE, "turned round": NOW})
NODES = 60


def app(records=basket, domain=FRUIT):
    made = ClientApp()
    answer_predictor_queries(made, records, domain)
    return made


def predictor(**options):
    return PrivatePredictor(BayesMixture(CANDIDATES, epsilon=2.0), **options)


class Kept(InProcessGrid):
    """Keeps the replies."""

    def pull_messages(self, message_ids):
        came = list(super().pull_messages(message_ids))
        self.replies: list[Message] = [*getattr(self, "replies", ()), *came]
        return came


def guard_file(folder, *, delta="0"):
    """An operator's limits: two reports at ε = 2."""
    file = folder / "guard.toml"
    file.write_text(
        'receipts = "r.db"\nkey = "k"\nprotects = "client"\n'
        '[allow]\ntrust = ["local"]\ndomains = "any"\nplans = "any"\n'
        f"[check]\nmax_epsilon = 2.0\nmax_delta = {delta}\nmin_asked = 1\n"
        f"[period]\ndays = 30\nmax_epsilon = 4.0\nmax_delta = {delta}\n"
    )
    return file


def test_it_learns_which_candidate_the_clients_follow():
    """By chance the weight stays below in one run of a million at most."""
    learning = PrivatePredictor(BayesMixture(CANDIDATES, epsilon=4.0))
    grid, nodes = grid_of(app(), 150), 150
    for _ in range(4):
        report = learning.ask(grid)
    assert report.reading.leader == "turned round"
    assert report.reading.weights["turned round"] > 0.98
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (
        nodes,
        nodes,
        {},
    )
    assert (report.round, report.reading.reports) == (4, 4 * nodes)
    assert (report.cost.left, report.guarantee.delta, report.reading.swing) == (None, 0.0, 8.0)


def test_flowers_own_start_gives_metrics_of_each_round():
    learning = predictor()
    result = learning.start(grid_of(app(), NODES), ArrayRecord(), num_rounds=3)
    metrics = result.evaluate_metrics_clientapp
    assert [metrics[r]["predictor.taken"] for r in (1, 2, 3)] == [NODES] * 3
    assert set(learning.reports) == {1, 2, 3}


def test_it_works_beside_drift_checks_in_one_app():
    both = app_of()
    answer_predictor_queries(both, basket, FRUIT)
    grid = grid_of(both, NODES)
    assert KLDrift(REFERENCE, Trusted(1.0)).check(grid).cohort.survivors == NODES
    assert predictor().ask(grid).cohort.survivors == NODES


def test_a_report_is_a_symbol_and_nothing_else():
    """What leaves a node: a query's number and a symbol of two."""
    grid = Kept(app(), NODES)
    predictor().ask(grid)
    for reply in grid.replies:
        assert set(reply.content) == {"answer", "numbers"}
        ((sent,),) = reply.content["numbers"].values()
        query, symbol = struct.unpack(REPORT, sent)
        assert query < 2**8 > symbol


def symbols_of(learning, design):
    """How often clients answered each symbol, by row of a design's law."""
    return learning.predictor._tally.together(lambda *_: design, "")[design]


def test_the_symbols_law_is_the_channels():
    """All clients hold one label: symbols follow its row of the channel.

    Exact binomial tails, for all symbols together wrong in one run of a million.
    """
    learning = predictor()
    one = grid_of(app(lambda context: ["apple"] * 3), 3000)
    learning.ask(one)
    design = learning.predictor.design()
    counts = np.zeros(len(design.law))
    rows = symbols_of(learning, design)
    counts[rows.rows] = rows.counts
    expected = np.concatenate(
        [
            [q.channel.weight(int(q.class_of[0]), z) / 2**128 for z in range(q.channel.classes)]
            for q in design.queries
        ]
    )
    asked = np.add.reduceat(counts, design.starts[:-1]).repeat(np.diff(design.starts))
    below = binom.cdf(counts, asked, expected)
    above = binom.sf(counts - 1, asked, expected)
    assert min(below.min(), above.min()) > 0.5e-6 / len(counts)


def broken(context: Context) -> list[str]:
    raise RuntimeError("the secret is durian")


class Beyond(Labels):
    """A domain of the operator's own, which encodes out of range."""

    def encode(self, records):
        return np.full(3, 7)


@pytest.mark.parametrize(
    ("records", "domain"),
    [
        (lambda context: [], FRUIT),
        (lambda context: ["apple", "the secret"], FRUIT),
        (broken, FRUIT),
        (basket, Beyond(FRUIT.names)),
    ],
)
def test_clients_without_good_records_report_like_others(records, domain, caplog):
    """A refusal would tell the server of the data, which no channel hides; the node's log says."""
    learning = predictor()
    report = learning.ask(grid_of(app(records, domain), NODES))
    assert (report.cohort.survivors, report.cohort.dropouts) == (NODES, {})
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda query: struct.pack(REPORT, query, 99), "impossible report"),
        (lambda query: struct.pack(REPORT, query, 2**32 - 1), "impossible report"),
        (lambda query: struct.pack(REPORT, 10**6, 0), "wrong query"),
        (lambda query: struct.pack(REPORT, query, 0)[:-1], "impossible report"),
        (lambda query: struct.pack(REPORT, query, 0) + b"x", "impossible report"),
        (lambda query: b"", "impossible report"),
    ],
)
def test_a_lying_client_is_rejected_and_counted(lie, reason):
    class Lying(InProcessGrid):
        def pull_messages(self, message_ids):
            for reply in super().pull_messages(message_ids):
                if reply.metadata.src_node_id == 1000:
                    query, _ = struct.unpack(REPORT, reply.content["numbers"]["numbers"][0])
                    reply.content["numbers"] = ConfigRecord({"numbers": [lie(query)]})
                yield reply

    report = predictor().ask(Lying(app(), 5))
    assert (report.cohort.survivors, report.cohort.dropouts) == (4, {reason: 1})


def test_a_report_sent_twice_counts_once():
    class Echo(InProcessGrid):
        def pull_messages(self, message_ids):
            for reply in super().pull_messages(message_ids):
                yield reply
                yield reply

    report = predictor().ask(Echo(app(), 5))
    assert (report.cohort.survivors, report.cohort.dropouts) == (5, {})


def test_the_guard_caps_what_reports_cost(tmp_path):
    learning, grid = predictor(), grid_of(app(), 3)
    for i, context in enumerate(grid.contexts.values()):
        (tmp_path / str(i)).mkdir()
        context.node_config["drift-guard"] = str(guard_file(tmp_path / str(i)))
    assert learning.ask(grid).cohort.survivors == learning.ask(grid).cohort.survivors == 3
    with pytest.raises(CheckFailed, match="left: 0"):
        learning.ask(grid)


@pytest.mark.parametrize("claim", [{"epsilon": 1.99}, {"epsilon": 1.99, "delta": 0.5}])
def test_a_server_that_claims_less_than_its_query_spends_is_refused(claim):
    """A channel is pure: no delta makes up for it."""
    learning = predictor()
    learning.predictor.guarantee = replace(learning.predictor.guarantee, **claim)
    with pytest.raises(CheckFailed, match="channel"):
        learning.ask(grid_of(app(), 3))


@pytest.mark.parametrize("claim", [{"protects": "record"}, {"protects": WholeClients(2)}])
def test_a_server_that_claims_to_protect_something_else_is_refused(claim):
    learning = predictor()
    learning.predictor.guarantee = replace(learning.predictor.guarantee, **claim)
    with pytest.raises(CheckFailed, match="WholeClients"):
        learning.ask(grid_of(app(), 3))


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_query_whose_number_no_report_holds_is_refused(number):
    def renumber(message):
        which = message.content["query"]
        (old,) = set(which.values())
        message.content["query"] = ConfigRecord(dict.fromkeys(which, number))
        message.content[f"query.{number}"] = message.content[f"query.{old}"]
        return False

    with pytest.raises(CheckFailed, match="query"):
        predictor().ask(InProcessGrid(app(), 3, lose=renumber))


# ------------------------------------------------------------------------------- with a ledger


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(8.0, 0.0, window_days=30, protects="client"))
    return made


@pytest.mark.parametrize(
    "change",
    [{"rounds": 1.0}, {"rounds": -1}, {"taken": "20"}, {"learnt": []}, {"learnt": {}}, {"more": 1}],
)
def test_a_damaged_state_is_refused(ledger, change):
    predictor(ledger=ledger).ask(grid_of(app(), 3))
    ledger.store_state(replace(k := ledger.state("predictor/predictor"), value=k.value | change))
    with pytest.raises(ValueError, match="state"):
        predictor(ledger=ledger)


def test_a_round_that_broke_off_is_paid_and_skipped(ledger):
    learning = predictor(ledger=ledger)
    with pytest.raises(CheckFailed, match="reply"):
        learning.ask(grid_of(app(), 3, lose=lambda message: True))
    again = predictor(ledger=ledger)
    assert again.rounds == 1
    assert ledger.check("predictor/1").state == "failed"
    assert ledger.spent().epsilon == pytest.approx(2.0)
    assert again.ask(grid_of(app(), 3)).round == 2


def test_the_ledger_refuses_before_anything_is_asked(ledger):
    learning, grid = predictor(ledger=ledger), grid_of(app(), 3)
    for _ in range(4):
        learning.ask(grid)
    sent = []
    grid.lose = lambda message: sent.append(message) or True
    with pytest.raises(BudgetExhausted):
        learning.ask(grid)
    assert not sent
    assert ledger.check("predictor/5").refused
    assert predictor(ledger=ledger).rounds == learning.rounds == 4  # nobody was asked in a fifth


def test_rounds_of_several_contexts_teach_one_predictor(ledger):
    """By chance the weight stays below in one run of a million at most."""
    laws = Hypotheses({
        "as the reference": REFERENCE,
        "turned round on weekends": {"weekday": REFERENCE, "weekend": NOW},
    })  # fmt: skip
    learning = PrivatePredictor(BayesMixture(laws, epsilon=2.0), context="weekday", ledger=ledger)
    grid = grid_of(app(), 300)
    assert learning.ask(grid).reading.weights["as the reference"] == pytest.approx(0.5)
    learning.context = "weekend"
    for _ in range(2):
        report = learning.ask(grid)
    assert report.reading.weights["turned round on weekends"] > 0.9
    np.testing.assert_allclose(
        learning.predictor.predict("weekend")[:4], NOW.probabilities[:4], atol=0.05
    )
    learning.context = "holiday"
    with pytest.raises(ValueError, match="holiday"):
        learning.ask(grid)
    assert ledger.spent().epsilon == pytest.approx(6.0)


def test_a_rounds_context_reaches_the_loader():
    """Each client is asked for the labels of the round's context, and no other is read."""
    asked = []

    def of_the_day(context):
        asked.append((context.run_config["drift-context"], context.run_config["mine"]))
        return ["apple"] * 5

    laws = Hypotheses({"as usual": REFERENCE, "turned round": {"weekday": REFERENCE, "": NOW}})
    learning = PrivatePredictor(BayesMixture(laws, epsilon=2.0), context="weekday")
    grid = grid_of(app(of_the_day), 3)
    grid.set_run_config({"mine": 1, "drift-context": "of the run"})
    learning.ask(grid)
    learning.context = ""
    learning.ask(grid)
    assert asked == [("weekday", 1)] * 3 + [("", 1)] * 3


def test_a_rotation_makes_a_client_pay_once_in_a_turn(ledger):
    learning = predictor(ledger=ledger, cohort=RotatingCohort(10))
    grid = grid_of(app(), 40)
    for _ in range(4):
        learning.ask(grid)
    assert ledger.spent().epsilon == pytest.approx(2.0)
