"""Settings: what they imply, and what is refused."""

import math

import pytest
from chance import gaussian_delta

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Cost
from flwr_kld.planner import Setting
from flwr_kld.trust.calibration import calibrated_laplace
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.trusted import Trusted, TrustedAggregator

RELIED = Distributed(1.0, min_clients=80)


def setting(**options):
    return Setting(**{"clients": 200, "records": 100.0, "trust": Trusted(1.0), **options})


def test_a_check_counts_all_records_of_its_clients_once():
    assert (setting().total, setting().drawn) == (20_000, False)
    assert (setting(population=2000).total, setting(population=2000).drawn) == (20_000, True)
    assert not setting(population=200).drawn


def test_aggregation_follows_from_trust():
    assert setting().aggregation == "plain-sum"
    assert setting(trust=RELIED).aggregation == "secure-sum"
    sealed = TrustedAggregator(1.0, aggregator=bytes([9] * 32))
    assert setting(trust=sealed).aggregation == "sealed-sum"
    assert setting(aggregation="secure-sum").aggregation == "secure-sum"
    with pytest.raises(ValueError, match="distributed"):
        setting(trust=RELIED, aggregation="plain-sum")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 1}, "clients"), ({"records": 0.0}, "records"),
        ({"threshold": -0.1}, "threshold"),
        ({"trust": Distributed(1.0, min_clients=201)}, "needs 201"),
        ({"design_effect": 0.5}, "design_effect"),
        ({"level": 0.4}, "level"),
        ({"population": 100}, "population"),
        ({"trust": "trusted"}, "trust"),
        ({"trust": Trusted(1.0, protects=WholeClients(50))}, "records"),
        ({"aggregation": "sealed-sum"}, "secure"),
        ({"records": 0.01}, "too few"),
        ({"design_effect": 20_000.0}, "too few"),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        setting(**wrong)


def test_the_noise_is_the_trust_models():
    assert setting(trust=Trusted(1.0)).event == calibrated_laplace(Guarantee(1.0))
    central = setting().event.table.variance
    assert setting(trust=RELIED, population=400).event.table.variance == pytest.approx(
        2.5 * central, rel=1e-4
    )


def test_the_cost_of_distributed_noise_is_that_of_the_shares_relied_on():
    relied = setting(trust=Distributed(1.0, min_clients=50)).trust.cost()
    assert float(relied.epsilon) == pytest.approx(1.0, abs=1e-4)
    assert relied.table.variance == pytest.approx(setting().event.table.variance, rel=1e-4)


def test_turns():
    assert setting().checks_per_person == 365
    assert setting(population=2000).checks_per_person == 37  # 36.5 turns
    assert setting(population=80_000).checks_per_person == 1


def test_a_session_ends_after_its_checks_or_its_days():
    def yearly(checks, **session):
        return setting(checks=checks, trust=Standing(Trusted(1.0, 1e-6), **session))

    assert yearly(365).epsilon_per_year == 1
    assert yearly(53, nights=53, days=365).epsilon_per_year == 1
    assert yearly(12, nights=12, days=365).epsilon_per_year == 1
    seven = yearly(53, nights=53).epsilon_per_year  # which end after 53 days
    assert seven == yearly(365, nights=53).epsilon_per_year > 2
    assert yearly(53, nights=20, days=365).epsilon_per_year > 1


def test_a_year_is_the_tighter_of_sum_and_composition():
    assert setting(population=73_000).epsilon_per_year == 1.0
    few = setting(population=36_500, trust=Trusted(2.0))
    assert few.checks_per_person == 2
    assert 2.0 < few.epsilon_per_year <= 4.0
    many = setting(population=2000, trust=Trusted(0.1)).epsilon_per_year
    assert 0.5 < many < 0.6 * 37 * 0.1


@pytest.mark.parametrize("delta", [1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("turns", [1, 2, 37, 365])
def test_the_yearly_epsilon_holds_at_the_delta_beside_it(delta, turns):
    plan = setting(population=73_000 // turns, trust=Trusted(1.0, delta))
    assert plan.delta_per_year <= (delta if turns == 1 else 1e-6)
    mu = math.sqrt(2 * plan.checks_per_person / plan.event.table.variance)
    if turns > 30:  # so many losses add up as a Gaussian's
        assert gaussian_delta(mu, plan.epsilon_per_year) <= 1.1 * plan.delta_per_year


def test_costs_without_a_noise_table_add_up_with_their_deltas(monkeypatch):
    monkeypatch.setattr(Trusted, "cost", lambda self: Cost.claimed("own", self.guarantee))
    plan = setting(population=36_500, trust=Trusted(1.0, 1e-5))
    assert (plan.epsilon_per_year, plan.delta_per_year) == pytest.approx((2.0, 2e-5))


def test_training_beside_checks_has_the_delta_of_both(monkeypatch):
    monkeypatch.setattr(Trusted, "cost", lambda self: Cost.claimed("own", self.guarantee))
    plan = setting(population=73_000, trust=Trusted(1.0, 1e-5), rounds=100, noise_multiplier=20.0)
    assert plan.delta_with_training > plan.delta_per_year == 1e-5
    assert plan.epsilon_with_training > plan.epsilon_per_year


def test_composition_matches_an_independent_accountant():
    """dp-accounting's own discrete Laplace, two coordinates moved by one, 37 times."""
    from dp_accounting.pld import privacy_loss_distribution

    plan = setting(population=2000, trust=Trusted(0.1))
    once = privacy_loss_distribution.from_discrete_laplace_mechanism(
        0.1 / 2, value_discretization_interval=1e-4
    )
    yearly = once.self_compose(2 * 37).get_epsilon_for_delta(1e-6)
    assert plan.epsilon_per_year == pytest.approx(yearly, rel=2e-3)
