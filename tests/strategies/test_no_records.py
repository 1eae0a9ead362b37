"""A client without records, such as a file of a header only, has not answered."""

import pytest
from federation import REFERENCE, app_of, basket, grid_of

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.strategies import KLDrift, Trusted


def some_without(*nodes, of=4):
    def records(context):
        return [] if context.node_id in nodes else basket(context)

    return grid_of(app_of(records), of)


def test_it_is_left_out_and_said(caplog):
    report = KLDrift(REFERENCE, Trusted(1.0)).check(some_without(1002))
    assert (report.cohort.asked, report.cohort.survivors) == (4, 3)
    assert report.cohort.dropouts == {"it has no records": 1}
    assert "these clients have no records: 1002:0" in caplog.text


def test_many_of_them_are_counted_in_the_report_alone(caplog):
    report = KLDrift(REFERENCE, Trusted(1.0)).check(some_without(*range(1002, 1009), of=10))
    assert report.cohort.dropouts == {"it has no records": 7}
    assert "no records" not in caplog.text


def test_it_does_not_count_among_the_fewest():
    with pytest.raises(CheckFailed, match="records"):
        KLDrift(REFERENCE, Trusted(1.0), min_clients=4).check(some_without(1002))


def test_where_sizes_are_hidden_nothing_is_said_of_it():
    trust = Trusted(1.0, protects=WholeClients(50))
    report = KLDrift(REFERENCE, trust).check(some_without(1002))
    assert (report.cohort.survivors, report.cohort.dropouts) == (4, {})
