"""A server that makes the scalar release fail for some counts and not for others."""

import sys

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, grid_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sealed_federation import KEY, federation

from examples import examples
from flwr_kld import Reference
from flwr_kld.counts.private_counts import ClearSum
from flwr_kld.counts.scalar import Scalar, ScalarRelease
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.query.partition import Partition
from flwr_kld.strategies import KLDrift, Trusted, TrustedAggregator

ADD_REMOVE = Adjacency.ADD_REMOVE
LAM, AMOUNT, OWN = 1e9, 1e-9, 8797
"""λ, smoothing, and the records that the server's own client holds of the victim's symbol."""


def rare(records: float) -> Reference:
    """A reference under which λ h / ((M + A) Π) overflows float64 from ``OWN + 1`` records on."""
    mass = LAM * (OWN + 0.5) / sys.float_info.max / (records + AMOUNT * FRUIT.size)
    return Reference.from_probabilities(FRUIT, [0.5, 0.3, 0.2 - mass, mass])


def people(victim_has: bool):
    def records(context):
        if context.node_id == 1000:
            return ["apple"] * 50 + ["durian"] * victim_has
        return ["durian"] * OWN if context.node_id == 1001 else ["apple"] * 10

    return records


class Unprepared(TrustedAggregator):
    """A server that asks for what an honest one would not."""

    def prepare(self, plan, clients):
        pass


@pytest.mark.parametrize("clip", [None, 10_000])
@pytest.mark.parametrize("victim_has", [False, True])
def test_an_overflow_tells_nobody_whether_a_record_is_there(victim_has, clip):
    scalar = Scalar("additive", AMOUNT, LAM, records=1.0)
    trust = Unprepared(0.01, aggregator=KEY.public, adjacency=ADD_REMOVE, release=scalar, clip=clip)
    grid = federation(app_of(people(victim_has), aggregator=KEY.public))
    with pytest.raises(CheckFailed, match=r"aggregator refused: .*overflows for some counts"):
        KLDrift(rare(1.0), trust).check(grid)


def test_an_honest_server_is_told_before_anything_is_asked():
    scalar = Scalar("additive", AMOUNT, LAM, records=1.0)
    asked = []

    def watch(message, context):
        asked.append(message.metadata.message_type)
        return app_of(people(False))(message, context)

    with pytest.raises(ValueError, match="overflows for some counts"):
        KLDrift(rare(1.0), Trusted(0.01, adjacency=ADD_REMOVE, release=scalar)).check(
            grid_of(watch)
        )
    assert asked == []


@pytest.mark.parametrize("mass", [5e-324, 1e-310])
def test_a_rare_symbol_overflows_beside_a_public_number_of_records_too(mass):
    """Of one record already, as λ h / ((M + A) Π): whether somebody holds it would show."""
    reference = Reference.from_probabilities(FRUIT, [0.5, 0.3, 0.2 - mass, mass])
    trust = Unprepared(0.01, aggregator=KEY.public, release=Scalar("additive", AMOUNT, LAM))
    grid = federation(app_of(people(True), aggregator=KEY.public))
    with pytest.raises(CheckFailed, match=r"aggregator refused: .*overflows for some counts"):
        KLDrift(reference, trust).check(grid)


def test_more_records_than_the_proof_allows_for_are_refused():
    plan = Partition(16).draw(REFERENCE, np.random.default_rng(0))
    options = Scalar(lam=0.1, records=1e6)
    release = ScalarRelease(options, Guarantee(1.0, 0.0, ADD_REMOVE), None, "laplace")
    release.prepare(plan, 4096)
    with pytest.raises(ValueError, match="4098 clients may hold more"):
        release.prepare(plan, 4098)
    clients = Guarantee(1.0, 0.0, ADD_REMOVE, Unit.CLIENT)
    ScalarRelease(options, clients, 10, "laplace").prepare(plan, 10**6)


EXTREMES = [5e-324, 1e-310, 1e-300, 1e-150, 1e-9, 1.0, 1e9, 1e150, 1e300]


@settings(max_examples=examples(100))
@given(
    st.sampled_from(["prior", "additive"]),
    st.sampled_from(EXTREMES),
    st.sampled_from([0.0, *EXTREMES]),
    st.sampled_from([1.0, 1e3, 1e12, 1e300]),
    st.sampled_from([5e-324, 1e-300, 1e-100, 0.1]),
    st.sampled_from([None, 1, 7]),
)
def test_what_was_prepared_never_fails_on_counts(smoothing, amount, lam, records, mass, clip):
    """Whatever a server chooses: either it is refused beforehand, or no counts make it fail."""
    reference = Reference.from_probabilities(FRUIT, [0.5, 0.3, 0.2 - mass, mass])
    plan = Partition(16).draw(reference, np.random.default_rng(0))
    options = Scalar(smoothing, amount, lam, records)
    unit = Unit.RECORD if clip is None else Unit.CLIENT
    release = ScalarRelease(options, Guarantee(20.0, 0.0, ADD_REMOVE, unit), clip, "laplace")
    try:
        release.prepare(plan, 1000)
    except ValueError:
        return
    for held in (0, 1, 2**31 - 1, 1000 * (2**31 - 1)):
        for place in range(plan.cells):
            values = np.zeros(plan.cells, dtype=np.int64)
            values[place] = held
            clear = ClearSum.of_total(values, plan, clients=1000, records=None)
            assert np.isfinite(release.release(clear, SystemBits()).value)
