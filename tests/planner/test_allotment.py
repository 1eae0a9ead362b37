"""How finely each column of a table is released."""

import math

import numpy as np
import pytest

from flwr_kld import Labels, Reference, Table
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.ledger.budget import exact
from flwr_kld.ledger.composition import composed_epsilon
from flwr_kld.ledger.cost import Cost
from flwr_kld.planner import Setting, forecast
from flwr_kld.planner.allotment import allot
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    RotatingCohort,
    Statistics,
    Trusted,
    UniformCohort,
)

pytestmark = pytest.mark.usefixtures("two_cohorts")
CARS = Labels(["bus", "car", "train"])


def test_a_delta_gives_a_wide_table_less_noise_and_each_column_its_own():
    kinds = {f"c{i}": [str(k) for k in range(3)] for i in range(9)}
    kinds["wide"] = [str(k) for k in range(90)]
    counts = {name: [9000 // len(own)] * len(own) for name, own in kinds.items()}
    reference = Reference.from_counts(Table(kinds), counts)
    plan = Partition(1000).draw(reference, np.random.default_rng(0))

    def noise(trust: Trusted) -> dict[str, float]:
        found = allot(trust, plan, dict.fromkeys(plan.columns, 0.15), drawn=True)
        deviation = trust.over(found).event(1).noise.variance ** 0.5
        return {name: deviation / n for name, n in zip(plan.columns, found.counts, strict=True)}

    pure, loose = noise(Trusted(1.0)), noise(Trusted(1.0, 1e-6))
    assert len(set(pure.values())) == 1
    assert max(loose.values()) < 0.9 * pure["wide"]
    assert loose["wide"] < 0.9 * max(loose.values())


def of_labels(symbols: int) -> QueryPlan:
    reference = Reference.from_counts(Labels([str(i) for i in range(symbols)]), [9] * symbols)
    return Partition(1000).draw(reference, np.random.default_rng(0))


@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("symbols", [5, 20, 100, 900])
def test_alike_records_take_what_counts_hardly_notice(symbols, epsilon, protects):
    """The error of a small check's counts grows by 3 %, and their noise by half, at most."""
    plan, trust = of_labels(symbols), Trusted(epsilon, protects=protects)
    found = allot(trust, plan, {}, drawn=True)

    def noise(alike: int) -> float:
        event = trust.over(Allotment(found.counts, alike)).event(60)
        return math.sqrt(event.noise.variance) / found.counts[0]

    by_noise, grows = plan.cells * noise(0) ** 2 / 3_000, noise(found.alike) / noise(0)
    assert found.alike
    assert grows < 1.75  # half, of whole numbers
    assert math.sqrt((1 + by_noise * grows**2) / (1 + by_noise)) < 1.031
    assert grows > (1.15 if by_noise < 0.1 else 1.01)


def test_alike_records_are_asked_where_hardly_any_noise_is():
    assert allot(Trusted(20.0), of_labels(5), {}, drawn=True).alike


def test_noise_shares_of_a_small_epsilon_tell_how_alike_records_are():
    """Where counts hardly notice, a few steps do, and these need short tables."""
    trust = Distributed(0.3, min_clients=20)
    assert allot(trust, of_labels(20), {}, drawn=True).alike
    assert not allot(trust, of_labels(900), {}, drawn=True).alike


def checks(**asked) -> KLDrift:
    return KLDrift(Reference.from_counts(CARS, [1, 1, 1]), Trusted(1.0), threshold=0.1, **asked)


def statistics(**asked) -> Statistics:
    return Statistics(CARS, Trusted(1.0), **asked)


@pytest.mark.parametrize("made", [checks, statistics])
def test_counts_about_the_very_clients_that_are_asked_get_hardly_more_noise(made):
    """Of these, noise is all that is not known."""

    def steps(**asked) -> int:
        return made(**asked).trust.allotment.counts[0]

    assert steps() == steps(cohort=UniformCohort()) == 17
    assert steps(cohort=UniformCohort(60)) == steps(cohort=RotatingCohort(60)) < 17


@pytest.mark.parametrize("protects", ["record", WholeClients(50)])
@pytest.mark.parametrize(
    ("clients", "present"), [(100, None), (100, 100), (100, 300), (30, None), (30, 300)]
)
def test_a_plan_tells_the_noise_that_a_check_will_have(clients, present, protects):
    trust, reference = Trusted(1.0, protects=protects), Reference.from_counts(CARS, [1, 1, 1])
    told = forecast(
        reference,
        Setting(clients=clients, records=50, trust=trust, threshold=0.1, population=present),
    )
    cohort = None if present in (None, clients) else RotatingCohort(clients)
    asked = KLDrift(reference, trust, threshold=0.1, cohort=cohort).trust
    noise = math.sqrt(asked.event(clients).noise.variance) / asked.allotment.counts[0]
    assert told.noise == pytest.approx(noise, rel=0.02)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.03, 0.06, 0.1, 0.15, 0.2, 0.4])
def test_the_checks_of_a_year_compose_by_their_noise_however_finely_it_is_allotted(epsilon, delta):
    """Noise over 18 counts leaks far less in a year than some noise of the same epsilon would."""
    table = Table({f"column {i}": ["a", "b", "c"] for i in range(9)})
    reference = Reference.from_counts(table, {name: [900, 700, 400] for name in table.columns})
    trust = KLDrift(reference, Trusted(epsilon, delta), threshold=0.1).trust
    year = Setting(clients=3, records=1800, trust=trust).epsilon_per_year
    alone = Cost("", exact(epsilon), exact(delta), "record")
    by_epsilon_alone = composed_epsilon(((alone, 365),), 1e-3)  # delta holds that of 365 checks
    assert 10 * epsilon < year < by_epsilon_alone / 2
