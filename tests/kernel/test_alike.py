"""Numbers of alike records: no record or client moves them further than the release hides."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows_of, values_of

from flwr_kld.ask.noisy import on_coarser_grid
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import alike_records
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.law import SeededBits, SystemBits, noise_sum
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, ClientRows, Held, Layout
from flwr_kld.trust.calibration import least_noise
from flwr_kld.trust.noise_laws import discrete_laplace

REPLACE, ADD = Guarantee(1.0), Guarantee(1.0, protects=WholeClients(2**20 - 1))
COINS = (0, 1, 2**32 - 1, 2**32, 2**63, 2**63 + 2**40, 2**64 - 1)


def exact(counts) -> Fraction:
    """Records in the same cell as another one of their client's that is drawn at random."""
    records = sum(counts)
    if records < 2:
        return Fraction(records)
    return Fraction(sum(c * (c - 1) for c in counts), records - 1)


def steps_of(counts, guarantee, steps, coin) -> int:
    return int(steps_by(counts, guarantee, steps, [coin])[0])


def steps_by(counts, guarantee, steps, coins) -> np.ndarray:
    """Return a client's steps under each coin."""
    rows = np.tile(np.array(counts, dtype=np.int32), (len(coins), 1))
    coins = np.array(coins, dtype=np.uint64).reshape(-1, 1)
    return alike_records(rows, [0], guarantee, steps, coins)[:, 0]


def neighbours(counts, protects):
    """Counts of the same client after one record changed."""
    for gone in range(len(counts)):
        if counts[gone]:
            fewer = [c - (i == gone) for i, c in enumerate(counts)]
            if protects != "record":
                yield fewer
            else:
                for come in range(len(counts)):
                    yield [c + (i == come) for i, c in enumerate(fewer)]


@pytest.mark.parametrize("guarantee", [REPLACE, ADD])
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_one_record_moves_them_by_as_many_steps_at_most_whatever_the_coins(guarantee, steps):
    """All clients of up to six records in three cells, and all that one record may change."""
    farthest = 0
    for counts in product(range(7), repeat=3):
        if sum(counts) <= 6:
            for other in neighbours(list(counts), guarantee.protects):
                a, b = (steps_by(c, guarantee, steps, COINS) for c in (counts, other))
                farthest = max(farthest, int(np.abs(a - b).max()))
    assert farthest == steps


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=5),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([1, 3, 255, 1023]),
    st.integers(0, 2**64 - 1),
)
def test_one_record_of_a_large_client_moves_them_no_further(counts, gone, come, steps, coin):
    gone, come = gone % len(counts), come % len(counts)
    counts[gone] += 1
    fewer = [c - (i == gone) for i, c in enumerate(counts)]
    other = [c + (i == come) for i, c in enumerate(fewer)]
    for guarantee, neighbour in ((REPLACE, other), (ADD, fewer)):
        apart = [steps_of(c, guarantee, steps, coin) for c in (counts, neighbour)]
        assert abs(apart[0] - apart[1]) <= steps


@given(
    st.lists(st.integers(0, 2**20), min_size=1, max_size=6),
    st.sampled_from([1, 3, 1023]),
    st.integers(0, 2**64 - 1),
)
def test_they_are_the_exact_number_rounded_by_the_coin(counts, steps, coin):
    for guarantee, worth in ((REPLACE, 2), (ADD, 1)):
        number = exact(counts) * steps / worth + Fraction(coin >> 32, 2**32)
        assert steps_of(counts, guarantee, steps, coin) == number.__floor__()


def test_the_largest_client_does_not_overflow():
    half = LARGEST_CLIENT // 2
    for counts in ([LARGEST_CLIENT], [half, half], [half, 1, half]):
        for steps in (1, 1023):
            number = min(exact(counts) * steps / 2, LARGEST_CLIENT)
            assert abs(steps_of(counts, REPLACE, steps, 2**63) - number) <= 1


def test_a_whole_client_has_no_more_alike_than_it_counts():
    inside = [counts for counts in product(range(4), repeat=3) if sum(counts) <= 3]
    assert max(steps_of(counts, ADD, 1, coin) for counts in inside for coin in COINS) == 3


def test_a_ball_holds_every_move_of_a_whole_client():
    allotment = Allotment((3, 1), 5)
    column = [v for v in product(range(4), repeat=2) if sum(v) <= 3]
    steps = np.repeat(allotment.counts, 2)
    vectors = [
        np.array([*steps * (*a, *b), *(steps_of(c, ADD, 5, 2**63) for c in (a, b))])
        for a in column
        for b in column
        if sum(a) == sum(b)  # a record is counted once in each
    ]
    ball = allotment.moves(WholeClients(3))
    for vector in vectors:  # replaced by none
        assert vector.max() <= ball.largest
        assert vector.sum() <= ball.power


@pytest.mark.parametrize("allotment", [Allotment((3,) * 4, 1), Allotment((15, 13, 21, 11), 3)])
@pytest.mark.parametrize("guarantee", [Guarantee(1.0, 1e-6), Guarantee(0.3, 1e-9)])
def test_the_noise_hides_the_farthest_move_and_little_more(allotment, guarantee):
    """By the exact loss of the implemented table."""
    release = least_noise(guarantee, allotment.moves(guarantee.protects))
    moves = allotment.moves("record")
    assert hockey_stick(release.table, moves, guarantee.epsilon) <= guarantee.delta
    assert hockey_stick(release.table, moves, 0.9 * guarantee.epsilon) > guarantee.delta


def test_a_release_for_fewer_steps_is_refused():
    layout = Layout((2, 1), allotment=Allotment((3, 5), 1))
    clear = ClearSum(layout, rows_of(layout, [1, 1, 2, 0, 1]))
    for less in (Allotment((3, 5)), Allotment((3, 3), 1), Allotment.even(2)):
        release = least_noise(REPLACE, moves=less.moves("record"))
        with pytest.raises(ValueError, match="hides"):
            clear.release(release, SystemBits())
    enough = least_noise(REPLACE, moves=layout.allotment.moves("record"))
    assert clear.release(enough, SystemBits()).records == 2


@pytest.mark.rate(1e-5)
def test_what_is_released_are_steps_of_each_column():
    layout = Layout((2, 1), allotment=Allotment((3, 5), 7))
    symbols = [np.array([[0, 2]] * 4 + [[1, 2]] * 6), np.array([[1, 2]])]
    rows = ClientRows.count(symbols, np.arange(3, dtype=np.int32), layout, REPLACE, SystemBits())
    loud = least_noise(Guarantee(0.1), moves=layout.allotment.moves("record"))
    runs = [ClearSum(layout, rows).release(loud, SeededBits(seed)).values for seed in range(2000)]
    exactly = [3 * 4, 3 * 7, 5 * 11, 7 / 2 * (42 / 9 + 1), 7 / 2 * (10 + 1)]
    error = np.sqrt(loud.table.variance / len(runs))
    assert np.abs(np.mean(runs, axis=0) - exactly).max() < 5 * error


@pytest.mark.parametrize("alike", [-1, 6, 2**31 - 1])
def test_a_client_cannot_say_that_more_are_alike_than_it_has(alike):
    """Ten records, of which each is worth half a step."""
    layout = Layout((2,), allotment=Allotment((3,), 1))
    answers = [([name], Held([np.array(row, "<i4").tobytes()]))
               for name, row in (("honest", [4, 6, 5]), ("liar", [4, 6, alike]))]  # fmt: skip
    clear = ClearSum.of_answers(answers, layout, REPLACE)
    assert clear.clients == 1
    assert list(clear.refused) == ["liar"]
    assert any(why in clear.refused["liar"] for why in ("more records are alike", "negative"))


@pytest.mark.parametrize("more", [0, 1, 2, 100_000])
def test_no_refusal_tells_how_many_records_a_client_has(more):
    """A server that asks for fine steps would learn a hidden number: they stop at 32 bits."""
    steps = 2**16 - 1
    layout = Layout((1,), allotment=Allotment((3,), steps))
    many = np.broadcast_to(np.int64(0), (LARGEST_CLIENT // steps + more,))
    rows = ClientRows.count([many], np.zeros(1, np.int32), layout, ADD, SystemBits())
    assert values_of(rows).tolist() == [[len(many), min(steps * len(many), LARGEST_CLIENT)]]


@pytest.mark.parametrize(
    "given", [{"counts": (2,)}, {"counts": ()}, {"counts": (1, -3)}, {"counts": (1,), "alike": -1},
              {"counts": (2**16 + 1,)}, {"counts": (1.5,)}, {"counts": (1,), "alike": True}]
)  # fmt: skip
def test_allotments_that_are_none(given):
    with pytest.raises(ValueError, match=r"steps|alike"):
        Allotment(**given)


@pytest.mark.parametrize("grid", [3, 7])
def test_rounded_noise_has_its_own_law_and_no_thinner_tail(grid):
    law = discrete_laplace(2.5 * grid)
    coarse, half = on_coarser_grid(law, grid), grid // 2
    for k in range(-5, 6):
        steps = range(grid * k - half, grid * k + half + 1)
        assert coarse.probability(k) == sum(law.probability(z) for z in steps)

    def beyond(table, least):
        return sum(table.probability(k) for k in range(least, least + 60 * grid))

    for k in range(coarse.reach - 1, coarse.reach + 3):
        fine = beyond(law, grid * k - half)
        assert fine <= beyond(coarse, k) <= fine * Fraction(math.exp(1.0))  # one step off at most


def test_what_rounding_lost_of_a_sum_is_lost_on_a_coarser_grid_too():
    law = noise_sum(discrete_laplace(2.5), 2)
    assert on_coarser_grid(law, 3).tail == law.tail > 0
