"""Checks in process, from the question to the report: near the truth, from whoever takes part."""

import pytest
from federation import FAR, FRUIT, REFERENCE, SHARES, grid_of
from flwr.app import Message
from flwr.serverapp.strategy import Strategy

from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.strategies import KLDrift, RotatingCohort, Trusted, UniformCohort, WholeClients

TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)


def test_a_check_reads_the_exact_divergence_within_its_error():
    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of())
    assert abs(report.reading.estimate - TRUTH) < FAR * report.reading.error.privacy + 0.01
    assert report.reading.error.privacy < 0.05
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (20, 20, {})
    assert report.reading.records == 2000
    assert report.compared.cells == 6  # four kinds of fruit, others, missing
    assert report.protection.private
    assert report.guarantee == Guarantee(1.0)
    assert report.compared.domain == FRUIT.fingerprint
    assert report.compared.reference == REFERENCE.fingerprint


def test_noise_is_really_added_and_differs_between_checks():
    monitor = KLDrift(REFERENCE, Trusted(epsilon=0.1))
    estimates = {monitor.check(grid_of()).reading.estimate for _ in range(4)}
    assert len(estimates) == 4
    assert TRUTH not in estimates


def test_start_puts_metrics_into_flowers_result():
    monitor = KLDrift(REFERENCE, Trusted(epsilon=1.0))
    assert isinstance(monitor, Strategy)
    result = monitor.start(grid_of(), num_rounds=3)
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2, 3]
    for number, metrics in result.evaluate_metrics_clientapp.items():
        assert metrics["kld.estimate"] == monitor.reports[number].reading.estimate
        assert metrics["kld.epsilon"] == 1.0


def test_a_failed_round_gives_no_number_and_does_not_stop_the_others():
    class Weather:
        down = False

        def __call__(self, message: Message) -> bool:
            return message.metadata.group_id == "2"

    monitor = KLDrift(REFERENCE, Trusted(epsilon=1.0))
    result = monitor.start(grid_of(lose=Weather()), num_rounds=3)
    assert dict(result.evaluate_metrics_clientapp[2]) == {"kld.failed": 1}
    assert sorted(monitor.reports) == [1, 3]


@pytest.mark.parametrize(
    "trust",
    [
        Trusted(epsilon=3.0),
        Trusted(epsilon=3.0, delta=0.3),
        Trusted(epsilon=200.0, protects=WholeClients(100)),
    ],
)
def test_every_release_is_near_the_truth(trust):
    report = KLDrift(REFERENCE, trust).check(grid_of())
    assert abs(report.reading.estimate - TRUTH) < FAR * report.reading.error.privacy + 0.02
    assert report.guarantee == trust.guarantee


def test_below_the_minimum_cohort_nothing_is_released():
    grid = grid_of(lose=lambda m: m.metadata.dst_node_id >= 1004)
    monitor = KLDrift(REFERENCE, Trusted(epsilon=1.0), min_clients=5)
    with pytest.raises(CheckFailed, match="4 clients"):
        monitor.check(grid)


def test_only_the_cohort_is_asked():
    asked = []
    grid = grid_of(lose=lambda m: asked.append(m.metadata.dst_node_id))
    monitor = KLDrift(REFERENCE, Trusted(epsilon=1.0), cohort=RotatingCohort(5))
    for _ in range(4):
        monitor.check(grid)
    assert len(asked) == len(set(asked)) == 20
    KLDrift(REFERENCE, Trusted(epsilon=1.0), cohort=UniformCohort(7)).check(grid)
    assert len(asked) == 27


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cells": 8}, "cells"),
        ({"min_clients": 0}, "min_clients"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_arguments_out_of_range_fail_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        KLDrift(REFERENCE, Trusted(epsilon=1.0), **arguments)
