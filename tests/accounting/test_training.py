"""A training's spend from the state of Flower's accountant: one budget for it and for checks."""

import copy
import json

import pytest
from accounting.books import DAY, REPORT, ask, pure
from accounting.conftest import NOW
from flwr.serverapp import GaussianPrivacyEvent, PrivacyConfig, RdpAccountant
from flwr.serverapp import NeighboringRelation as Relation
from flwr.serverapp import SamplingMethod as Sampling

from flwr_kld.accounting import Budget, BudgetExhausted, Charge, Clients, Kind
from flwr_kld.accounting.training import training_cost
from flwr_kld.kernel import Unit
from flwr_kld.kernel.promise import Adjacency

BUDGET = Budget(8.0, 1e-6, 30)
MODELS = [
    (Relation.ADD_OR_REMOVE_ONE, Sampling.POISSON),
    (Relation.REPLACE_ONE, Sampling.WITHOUT_REPLACEMENT),
    (Relation.ADD_OR_REMOVE_ONE, Sampling.NO_AMPLIFICATION),
]


def trained(rounds=20, relation=Relation.REPLACE_ONE, sampling=Sampling.WITHOUT_REPLACEMENT):
    config = PrivacyConfig(1e-6, 1000, relation, sampling)
    accountant = RdpAccountant(config, orders=(2.0, 4.0, 8.0, 16.0, 32.0))
    if rounds:
        accountant.compose(GaussianPrivacyEvent(8.0, 50, 1000), rounds)
        accountant.compose(GaussianPrivacyEvent(12.0, 50, 1000), rounds)
    return accountant


@pytest.mark.parametrize(("relation", "sampling"), MODELS)
def test_the_cost_is_what_flowers_own_accountant_says(relation, sampling):
    accountant = trained(20, relation, sampling)
    state = json.loads(json.dumps(accountant.state_dict()))
    adjacency = Adjacency.REPLACE_ONE if relation is Relation.REPLACE_ONE else Adjacency.ADD_REMOVE
    budget = Budget(8.0, 1e-6, 30, adjacency=adjacency, unit=Unit.CLIENT)
    cost = training_cost(state, budget)
    assert (cost.adjacency, cost.unit, cost.delta) == (adjacency, Unit.CLIENT, 5 * 10**11)
    expected = accountant.get_epsilon(5e-7)
    assert expected <= cost.epsilon / 1e9 <= expected + 2e-9


def test_a_budget_of_replaced_records_pays_two_steps_at_half_its_delta():
    accountant = trained(20, Relation.ADD_OR_REMOVE_ONE, Sampling.POISSON)
    cost = training_cost(accountant.state_dict(), BUDGET)
    toward = cost.toward(BUDGET)
    assert toward.delta <= 5 * 10**11
    assert toward.epsilon == 2 * cost.epsilon
    assert cost.epsilon / 1e9 >= accountant.get_epsilon(cost.delta / 1e18)


def test_training_and_checks_share_one_budget(ledger):
    ledger.set_budget(Budget(4.0, 1e-6, 30, composition="sum"), now=NOW)
    accountant = trained(20)
    spent = ledger.record_training("model", accountant.state_dict(), now=NOW)
    assert spent.epsilon == pytest.approx(accountant.get_epsilon(5e-7), abs=2e-9)
    assert spent.delta == 5e-7
    with pytest.raises(BudgetExhausted):
        ledger.reserve("1", ask(4.0, "a"), now=NOW)
    ledger.reserve("1", ask(spent.left, "a"), now=NOW)
    entry, _ = ledger.history()
    assert (entry.kind, entry.key, entry.state) == ("training", "model", "settled")
    assert entry.report == json.loads(json.dumps(accountant.state_dict()))


def test_later_rounds_replace_earlier_ones_and_a_shrunk_training_is_refused(ledger):
    first, second = trained(10), trained(30)
    ledger.record_training("model", first.state_dict(), now=NOW)
    later = ledger.record_training("model", second.state_dict(), now=NOW + DAY)
    assert later.epsilon == pytest.approx(second.get_epsilon(5e-7), abs=2e-9)
    assert len(ledger.history()) == 1
    with pytest.raises(ValueError, match="has lost steps: another run needs another key"):
        ledger.record_training("model", first.state_dict(), now=NOW + DAY)
    both = ledger.record_training("other", first.state_dict(), now=NOW + DAY)
    assert both.epsilon > later.epsilon
    assert ledger.spent(now=NOW + 31 * DAY).epsilon == both.epsilon  # as of its last round
    assert ledger.spent(now=NOW + 31 * DAY + 1).epsilon == 0


def test_a_training_beyond_the_budget_is_recorded_all_the_same(ledger):
    spent = ledger.record_training("model", trained(4000).state_dict(), now=NOW)
    assert spent.epsilon > 1
    assert spent.left == 0
    with pytest.raises(BudgetExhausted):
        ledger.reserve("1", ask(0.001, "a"), now=NOW)


def test_a_training_and_a_check_may_have_the_same_key(ledger):
    ledger.set_budget(BUDGET, now=NOW)
    ledger.record_training("monday", trained(1).state_dict(), now=NOW)
    ledger.settle(ledger.reserve("monday", ask(0.1), now=NOW), REPORT, now=NOW)
    assert ledger.check("monday").kind is Kind.CHECK


def test_a_training_composes_with_tables_at_one_delta(ledger):
    ledger.set_budget(BUDGET, now=NOW)
    alone = ledger.record_training("model", trained(20).state_dict(), now=NOW)
    charges = [Charge(pure(0.05), Clients(["a"]))] * 40
    ledger.reserve("1", charges, now=NOW)
    spent = ledger.spent(now=NOW)
    assert spent.composition == "pld"
    assert alone.epsilon < spent.epsilon < alone.epsilon + 40 * 0.05


def test_an_empty_training_costs_next_to_nothing():
    assert training_cost(trained(0).state_dict(), BUDGET).epsilon == 1


def test_a_pure_budget_has_no_room_for_a_training():
    with pytest.raises(ValueError, match="needs delta > 0"):
        training_cost(trained().state_dict(), Budget(1.0, 0.0, 30))


def test_a_training_that_hides_less_than_the_budget_is_refused():
    with pytest.raises(ValueError, match="hides whether a record or client is there"):
        training_cost(trained().state_dict(), Budget(1.0, 1e-6, 30, adjacency=Adjacency.ADD_REMOVE))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"backend": "pld"},
        {"config": None},
        {"config": {"neighboring_relation": "replace-special", "sampling_method": "poisson"}},
        {"config": {"neighboring_relation": "replace-one", "sampling_method": "by hand"}},
        {"config": {"neighboring_relation": "replace-one", "sampling_method": "poisson"}},
        {"orders": ["x"]},
        {"compositions": [{"event": {"noise_multiplier": 1.0}, "count": 1}]},
        {"compositions": [{"event": {}}]},
        {"compositions": 3},
    ],
)
def test_a_state_that_is_not_flowers_is_refused(change):
    state = copy.deepcopy(trained().state_dict()) | change
    with pytest.raises(ValueError, match="state"):
        training_cost(state, BUDGET)
