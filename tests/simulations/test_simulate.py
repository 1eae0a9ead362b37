"""`simulate`: virtual clients in a notebook, through the same messages as on a deployment."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from federation import FRUIT, REFERENCE

from flwr_kld import KLDrift, Labels, Reference, Table
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.report import Outcome
from flwr_kld.simulations import simulate
from flwr_kld.strategies import (
    Distributed,
    LabelDiscovery,
    PrivatePredictor,
    SecureSum,
    Statistics,
    Trusted,
    TrustedAggregator,
)

RNG = np.random.default_rng(0)
AGES = pd.DataFrame({"age": RNG.normal(50, 12, 6000), "ward": RNG.choice(["a", "b"], 6000)})
OLDER = AGES.assign(age=AGES.age + 15)


@pytest.mark.parametrize(
    "take", [pd.DataFrame, pl.DataFrame, dict], ids=["pandas", "polars", "dict"]
)
def test_a_table_that_moved_is_drift(take):
    monitor = KLDrift(Reference.from_frame(AGES), Trusted(3.0), threshold=0.1)
    report = simulate(monitor, take(OLDER), clients=60)
    assert report.columns["age"].outcome is Outcome.DRIFT
    assert report.columns["ward"].outcome is not Outcome.DRIFT
    assert report.reading.records == 6000
    assert monitor.checks == 1


@pytest.mark.parametrize(
    "records",
    [
        ["apple"] * 900,
        np.array(["apple"] * 900),
        pd.Series(["apple"] * 900),
        lambda _: ["apple"] * 9,
    ],
    ids=["list", "array", "series", "function"],
)
def test_every_row_is_dealt_once(records):
    report = simulate(KLDrift(REFERENCE, Trusted(3.0)), records, clients=100)
    assert report.reading.records == 900


def test_a_secure_sum_goes_on_with_the_same_clients():
    trust = Distributed(3.0, min_clients=8)
    monitor = KLDrift(REFERENCE, trust, aggregation=SecureSum())
    for _ in range(2):
        report = simulate(monitor, ["apple", "banana"] * 100, clients=10)
        assert (report.cohort.survivors, report.reading.records) == (10, 200)


LAWS = Hypotheses(
    {n: Reference.from_counts(Labels(["x", "y"]), {n: 9, o: 1}) for n, o in ("xy", "yx")}
)


def test_a_predictor_learns_from_rounds():
    learning = PrivatePredictor(BayesMixture(LAWS, epsilon=4.0))
    for _ in range(3):
        report = simulate(learning, ["x"] * 200, clients=200)
    assert report.reading.leader == "x"


def test_statistics_tell_of_virtual_clients():
    report = simulate(Statistics(REFERENCE.domain, Trusted(3.0)), ["apple"] * 900, clients=100)
    assert report.records == 900
    (column,) = report.columns.values()
    assert column.statistics.most_frequent(1)[0].name == "apple"


def test_labels_that_no_list_has_are_found():
    jobs = Table({"job": Labels(["nurse"])})
    found = simulate(
        LabelDiscovery(jobs, "job", Trusted(3.0, 1e-6)), {"job": ["baker"] * 900}, clients=100
    )
    assert [label.name for label in found.reading.labels] == ["baker"]


def test_a_seed_repeats_dealing_and_noise_and_the_report_says_not_private():
    """Of a whole client's rows 3 are counted, which the client draws."""

    def year(seed, protects):
        monitor = KLDrift(REFERENCE, Trusted(3.0, protects=protects))
        return [simulate(monitor, [*FRUIT.names] * 50, clients=20, seed=seed) for _ in range(3)]

    nights = year(1, "record")
    noisy = [report.reading.estimate for report in nights]
    assert noisy == [report.reading.estimate for report in year(1, "record")]
    assert len({*noisy, *(report.reading.estimate for report in year(2, "record"))}) == 6
    assert not any(report.protection.private for report in nights)
    assert "NOT PRIVATE" in str(nights[0])
    capped = [[one.reading.records for one in year(1, WholeClients(3))] for _ in range(2)]
    assert capped[0] == capped[1]


def test_without_a_seed_the_noise_is_private():
    report = simulate(KLDrift(REFERENCE, Trusted(3.0)), ["apple"] * 200, clients=20)
    assert report.protection.private


def test_what_cannot_be_simulated_is_said():
    key = bytes(range(1, 33))
    with pytest.raises(ValueError, match="TrustedAggregator"):
        simulate(KLDrift(REFERENCE, TrustedAggregator(1.0, aggregator=key)), ["apple"], clients=2)
    with pytest.raises(ValueError, match="clients"):
        simulate(KLDrift(REFERENCE, Trusted(1.0)), ["apple"], clients=1)
    with pytest.raises(ValueError, match="KLDrift"):
        simulate(REFERENCE, ["apple"], clients=5)
