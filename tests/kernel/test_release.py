"""An event proves itself: what its table does not keep cannot be constructed."""

import copy
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rows import answered, clear_of

from flwr_kld import Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.kernel.law import TOTAL, NoiseTable, SystemBits
from flwr_kld.kernel.promise import Ball, Guarantee, WholeClients, hides
from flwr_kld.kernel.release import NotPrivateEnough, Release
from flwr_kld.trust.calibration import calibrated_gaussian, least_noise
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

ONE = Guarantee(1.0, 1e-6)


EVENTS = {
    "laplace": least_noise(Guarantee(1.0)),
    "gaussian": calibrated_gaussian(ONE),
    "a table": least_noise(ONE, moves=(1, -1) * 20),
    "a client": least_noise(Guarantee(1.0, 1e-6, protects=WholeClients(5)), Ball(1, 30, 10)),
}


def narrower(table):
    """The table without its outermost weights, and without a tail."""
    weights = list(table.weights[1:-1])
    weights[len(weights) // 2] += TOTAL - sum(weights)
    return NoiseTable(tuple(weights))


LIES = {
    "a sign error": {"table": discrete_laplace(1 / 2)},
    "a point mass": {"table": NoiseTable((TOTAL,))},
    "half the epsilon": {"guarantee": 0.5},
    "less is said to be delivered": {"delivered": 0.5},
    "nothing is said to be delivered": {"delivered": 0.0},
    "an endless loss": {"delivered": math.inf},
    "no number": {"delivered": math.nan},
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_false_claim_cannot_be_constructed(event, lie):
    lie = dict(lie)
    if factor := lie.get("guarantee"):
        lie["guarantee"] = replace(event.guarantee, epsilon=factor * event.guarantee.epsilon)
    with pytest.raises(ValueError, match=r"keep|delivered"):
        replace(event, **lie)


@pytest.mark.parametrize("name", ["laplace", "gaussian", "a table"])
def test_moves_beyond_those_of_the_calibration_are_not_hidden(name):
    event = EVENTS[name]
    for moves in ((2, -1, *event.moves[2:]), (*event.moves, 1)):
        with pytest.raises(NotPrivateEnough):
            replace(event, moves=moves)


def test_a_table_that_ends_is_not_pure_and_pays_in_delta():
    pure = EVENTS["laplace"]
    for changed in ({"table": narrower(pure.table)}, {"table": discrete_gaussian(50.0)}):
        with pytest.raises(NotPrivateEnough):
            replace(pure, **changed)
    assert replace(pure, table=narrower(pure.table), guarantee=ONE).guarantee == ONE


def test_a_delta_just_below_what_the_table_gives_is_refused():
    event = EVENTS["gaussian"]
    delta = event.delta_at(1.0)
    assert isinstance(delta, Fraction)
    enough = math.nextafter(float(delta), 1)
    assert replace(event, guarantee=Guarantee(1.0, enough)).guarantee.delta == enough
    with pytest.raises(NotPrivateEnough):
        replace(event, guarantee=Guarantee(1.0, float(delta) * (1 - 1e-9)))


@pytest.mark.parametrize("moves", [(), (0,), (1, 0), (0.5,), ("1",)])
def test_moves_that_are_no_moves_are_refused(moves):
    with pytest.raises(ValueError, match="shift"):
        replace(EVENTS["laplace"], moves=moves)


def test_no_other_class_passes_for_an_event():
    with pytest.raises(TypeError, match="kinds"):
        type("Lenient", (Release,), {"__post_init__": lambda self: None})


def test_an_event_for_larger_moves_releases_no_parity():
    """Noise on even integers hides a move by 2, and shows one by 1."""
    fine = calibrated_gaussian(Guarantee(0.9, 1e-7)).table
    weights = [1] * (2 * len(fine.weights) - 1)
    weights[::2] = fine.weights
    weights[len(weights) // 2] -= sum(weights) + fine.tail - TOTAL
    event = Release("own", NoiseTable(tuple(weights), fine.tail, fine.tail_ratio), (2, -2), ONE)
    reference = Reference.from_counts(Labels(["a", "b"]), [5, 5])
    plan = Partition(16).draw(reference, np.random.default_rng(0))
    with pytest.raises(ValueError, match="event"):
        clear_of(plan.layout, [7] * plan.length).release(event, SystemBits())


def test_whole_clients_hide_how_many_records_they_have():
    clients = replace(ONE, protects=WholeClients(60))
    event = least_noise(clients, Ball(1, 60, 60))
    reference = Reference.from_counts(Labels(["a", "b"]), [5, 5])
    plan = Partition(16).draw(reference, np.random.default_rng(0))
    total = answered(plan.layout, [7] * plan.length, guarantee=clients)
    totals = {total.release(event, SystemBits()).records for _ in range(40)}
    assert len(totals) > 1  # one value in all with probability below 1e-20


def test_a_copy_is_the_same_event():
    event = EVENTS["a table"]
    assert copy.deepcopy(event) == event


@pytest.mark.parametrize(
    ("moves", "others", "hidden"),
    [
        ((1, -1), (1, -1), True),
        ((1, -1), (-1, 1), True),
        ((1,), (1, -1), False),
        ((1, -1), (1,), True),
        ((2,), (1, -1), False),  # noise on two numbers, of which one was thought to stay
        ((2, -2), (1, -1), False),  # noise may sit on even numbers
        ((2, -2, 1, -1), (1, -1), True),
        (Ball(1, 4, 2), (2, -2), True),
        (Ball(1, 4, 2), (3,), False),
        (Ball(2, 8, 2), (2, 2), True),
        (Ball(2, 8, 2), (2, 2, 1), False),
        (Ball(1, 4, 2), Ball(1, 3, 2), True),
        (Ball(1, 4, 2), Ball(1, 4, 3), False),
        (Ball(1, 4, 2), Ball(2, 4, 2), False),
    ],
)
def test_what_hides_a_move_hides_it_wherever_it_is(moves, others, hidden):
    assert hides(moves, others) is hidden
