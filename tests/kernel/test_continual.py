"""Continual release: every lifetime is hidden, exactly, and counts are made of y alone."""

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from forks import in_a_fork
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.kernel.channels import KeyedBits
from flwr_kld.kernel.continual import UNIT, Continual
from flwr_kld.kernel.delta import gaussian_delta, hockey_stick, renyi_delta
from flwr_kld.kernel.law import TOTAL, NoiseTable, SystemBits, noise_sum, sample
from flwr_kld.kernel.promise import Allotment, Ball, Guarantee, WholeClients
from flwr_kld.kernel.release import NotPrivateEnough, Release
from flwr_kld.kernel.vector import ClearSum, ClientRows, Layout, NightNoise
from flwr_kld.trust.calibration import continual_release
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

ONE = Allotment.even(1)
PROMISED = Guarantee(1.0, 1e-6)


def columns(stream: Continual) -> np.ndarray:
    """C, by its definition."""
    lags = np.subtract.outer(np.arange(stream.nights), np.arange(stream.nights))
    return np.where(lags >= 0, np.array(stream.coefficients)[np.maximum(lags, 0)], 0)


def lifetimes(nights: int, stays: int, cells: int) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Every lifetime: when it is there, and its changes by night and cell."""
    found = []
    for ends in combinations(range(nights + 1), 2):
        for changes in combinations_with_replacement(range(ends[0], ends[1] + 1), stays - 1):
            times = (ends[0], *changes, ends[1])
            for where in product(range(cells), repeat=stays):
                moves = np.zeros((nights + 1, cells), dtype=int)
                for cell, come, go in zip(where, times, times[1:], strict=False):
                    moves[come, cell] += 1
                    moves[go, cell] -= 1
                found.append((ends, moves[:nights]))
    return found


@pytest.mark.parametrize(
    ("nights", "moves", "cells"),
    [(1, 2, 2), (4, 2, 3), (6, 2, 2), (4, 4, 3), (5, 4, 3), (6, 4, 2), (4, 6, 3), (5, 6, 2)],
)
def test_no_life_moves_more_than_the_ball_holds(nights, moves, cells):
    stream = Continual(nights, moves)
    hidden, matrix = lifetimes(nights, moves // 2, cells), columns(stream)
    ball, by_presence = stream.moved(ONE), {}
    ended = np.hstack([matrix, np.zeros((nights, 1), dtype=int)])

    def among_frozen(ends: tuple[int, int]) -> int:
        """How far a record moves their number, which it may join on any two of its nights."""
        joins = combinations(range(ends[0], ends[1] + 1), 2)
        return max(int(((ended[:, come] - ended[:, go]) ** 2).sum()) for come, go in joins)

    for ends, lifetime in hidden:  # neighbours come and go on the same nights
        by_presence.setdefault(ends, {})[lifetime.tobytes()] = matrix @ lifetime
    far = both = 0
    for ends, alike in by_presence.items():
        moved = np.array([*alike.values()]).reshape(len(alike), -1)
        squares = (moved**2).sum(axis=1)
        apart = squares[:, None] + squares - 2 * moved @ moved.T
        far = max(far, int(apart.max()))
        both = max(both, int(apart.max()) + among_frozen(ends))
        largest = moved.max(axis=0) - moved.min(axis=0)
        assert largest.max() <= ball.largest
    assert both <= ball.power
    if moves <= 4:  # and no less: with one change, two records change places
        assert far + among_frozen((0, nights)) == ball.power


def farthest(nights: int, rows: int) -> int:
    """The proof's bound for so many rows of symbols; rounding counts from 16 nights on."""
    matrix = columns(Continual(nights))
    ended = np.hstack([matrix, np.zeros((nights, 1), int)])
    moves = {(a, b): ended[:, a] - ended[:, b] for a, b in combinations(range(nights + 1), 2)}
    stays = {stay: int(moved @ moved) for stay, moved in moves.items()}
    shared = max(
        (int(moves[one] @ moves[two]) for one in stays for two in stays if one[1] <= two[0]),
        default=0,
    )
    shared, most = max(shared, 0) if rows > 1 else 0, 0
    for a, b in stays:
        best = {a: 0}
        for _ in range(rows):  # the most that stays from a add up to, by where they end
            best = {
                e: max(
                    best.get(e, -1),
                    *(best[s] + stays[s, e] for s in best if s < e),
                    -1,
                )
                for e in range(a, b + 1)
            }
            best = {e: found for e, found in best.items() if found >= 0}
        chain = best[b] + 2 * math.comb(rows - 1, 2) * shared
        pairs = 4 * math.comb(2 * rows - 2, 2) + 2 * rows - 2
        most = max(most, 4 * chain - max(2 * stays[a, b] - 2 * pairs * shared, 0))
    return most + max(stays.values())  # the last are the frozen records' number


@pytest.mark.parametrize(("nights", "rows"), [(5, 1), (9, 3), (20, 1), (20, 2), (20, 3), (20, 5)])
def test_the_ball_is_that_of_the_proof(nights, rows):
    assert Continual(nights, 2 * rows).moved(ONE).power == farthest(nights, rows)


def test_a_table_moves_in_every_column_by_its_steps():
    stream, table = Continual(5), Allotment((3, 1, 5))
    frozen = int(stream._stays.max())
    one = stream.moved(ONE).power - frozen
    assert stream.moved(table).power == sum(n**2 for n in table.counts) * one + frozen


def test_a_year_costs_what_it_promises_by_another_computation():
    """The worst lifetime's privacy loss, convolved over its coordinates from the noise table."""
    stream = Continual(365)
    release = continual_release(PROMISED, stream, ONE)
    lifetime = np.zeros(365, dtype=int)
    lifetime[0], lifetime[289] = 1, -1
    moved = (columns(stream) @ lifetime).tolist()
    frozen = [s for s in moved if s]
    shifts = frozen + [s for s in moved if s] + [-s for s in moved if s]
    assert sum(s**2 for s in shifts) == release.moves.power
    assert hockey_stick(release.table, tuple(shifts), 1.0) <= 1e-6
    assert hockey_stick(release.table, tuple(shifts), 0.99) > 1e-6  # and hardly less


def direct_delta(table: NoiseTable, shifts: tuple[int, ...], epsilon: float) -> float:
    """The hockey-stick divergence of discrete Gaussian noise, on all outcomes of ``v · z``."""
    # The likelihood ratio depends on the outcome through v · z alone.
    law, sigma2 = np.ones(1), table.variance
    for shift in shifts:
        one = np.zeros(2 * table.reach * abs(shift) + 1)
        one[:: abs(shift)] = table.probabilities
        size = len(law) + len(one) - 1
        law = np.fft.irfft(np.fft.rfft(law, 2 * size) * np.fft.rfft(one, 2 * size), 2 * size)[:size]
    total = np.arange(len(law)) - len(law) // 2
    losses = (sum(s * s for s in shifts) / 2 + total) / sigma2
    beyond = losses > epsilon
    return float((law[beyond] * -np.expm1(epsilon - losses[beyond])).sum())


@pytest.mark.parametrize("shifts", [(3,), (7, -2), (4, 2, 1, -4), (5, 3, 2, -5, -3, -2)])
def test_the_gaussian_bound_holds_on_every_outcome(shifts):
    table = discrete_gaussian(40.0)
    ball = Ball(2, sum(s * s for s in shifts), max(map(abs, shifts)))
    for epsilon in (0.05, 0.2, 0.5):
        exact, bound = direct_delta(table, shifts, epsilon), gaussian_delta(table, ball, epsilon)
        assert exact * (1 - 1e-9) - 1e-15 <= float(bound) <= exact * 1.05 + 1e-12
        assert bound <= renyi_delta(table, ball, 1, epsilon)


def test_the_gaussian_bound_is_of_sums_of_fine_discrete_gaussians_too():
    ball, one = Ball(2, 50, 5), discrete_gaussian(50.0)
    law, alike = noise_sum(one, 5), discrete_gaussian(50.0 * math.sqrt(5))
    assert law.tail
    exact, bound = direct_delta(law, (5, 4, -3), 0.05), gaussian_delta(law, ball, 0.05)
    assert exact * (1 - 1e-9) <= float(bound) <= exact * 1.05
    assert float(bound) == pytest.approx(float(gaussian_delta(alike, ball, 0.05)), rel=1e-6)
    coarse = discrete_gaussian(1.5)  # its sums are none, by some 1e-19
    assert gaussian_delta(noise_sum(coarse, 2000), ball, 0.05) == 1


def test_the_gaussian_bound_is_of_discrete_gaussians_only():
    ball = Ball(2, 50, 5)
    gaussian = discrete_gaussian(50.0)
    changed = list(gaussian.weights)
    centre = len(changed) // 2
    for k, more in ((0, -2), (3, 1), (-3, 1)):
        changed[centre + k] += more << 40
    narrower = list(gaussian.weights[100:-100])
    narrower[len(narrower) // 2] += sum(gaussian.weights[:100]) * 2
    for law in (
        discrete_laplace(50.0),
        discrete_gaussian(8.0),  # of too few steps
        NoiseTable(tuple(changed)),
        NoiseTable(tuple(narrower)),
    ):
        assert gaussian_delta(law, ball, 1.0) == 1


def test_a_ball_of_the_other_norm_costs_what_its_squares_cost():
    gaussian = discrete_gaussian(50.0)
    for epsilon in (0.1, 1.0):
        bound = gaussian_delta(gaussian, Ball(1, 12, 3), epsilon)
        of_squares = gaussian_delta(gaussian, Ball(2, 36, 3), epsilon)
        assert float(bound) == pytest.approx(float(of_squares), rel=1e-9)
        direct = direct_delta(gaussian, (3, 3, -3, -3), epsilon)  # but for rounding of sums near 1
        assert float(bound) >= direct * (1 - 1e-9) - 1e-15


def test_what_a_table_of_gaussian_noise_leaves_amiss_counts():
    gaussian, ball, amiss = discrete_gaussian(50.0), Ball(2, 36, 3), 1 << 20
    changed = list(gaussian.weights)
    centre = gaussian.reach
    for k in range(1, 40):
        for side in (centre + k, centre - k):
            changed[side] += amiss * (-1) ** k
    changed[centre] += 2 * amiss
    apart = Fraction(80 * amiss, TOTAL) * 3  # in three coordinates
    for epsilon in (1.0, 20.0):
        fine = gaussian_delta(gaussian, ball, epsilon)
        coarse = gaussian_delta(NoiseTable(tuple(changed)), ball, epsilon)
        assert coarse - fine >= 0.9 * apart * Fraction(math.exp(epsilon))


def test_a_session_is_served_wherever_the_refusal_says_that_one_is():
    for epsilon, delta in ((20.0, 1e-11), (20.0, 1e-6), (1.0, 1e-11)):
        release = continual_release(Guarantee(epsilon, delta), Continual(365), Allotment.even(60))
        assert release.delta_at(epsilon) <= delta


def test_a_release_with_less_noise_cannot_be_made():
    release = continual_release(PROMISED, Continual(30), ONE)
    less = discrete_gaussian(0.999 * math.sqrt(release.table.variance))
    with pytest.raises(NotPrivateEnough):
        Release(release.mechanism, less, release.moves, PROMISED)


def exact_noise(stream: Continual, drawn: list[np.ndarray]) -> list[Fraction]:
    """``A C⁻¹ z`` on the last night, in rational numbers."""
    changes: list[list[Fraction]] = []
    for night, z in enumerate(drawn):
        now = [
            (int(value) - sum(stream.coefficients[night - k] * changes[k][i] for k in range(night)))
            / Fraction(UNIT)
            for i, value in enumerate(z)
        ]
        changes.append(now)
    return [sum(column, Fraction(0)) for column in zip(*changes, strict=True)]


@given(
    st.lists(st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3), min_size=1, max_size=9)
)
def test_noise_is_exact_and_what_is_published_is_made_of_y_alone(values):
    stream, drawn = Continual(12), [np.array(z) for z in values]
    expected = exact_noise(stream, drawn)
    assert stream.noise(drawn).tolist() == [math.floor(n + Fraction(1, 2)) for n in expected]
    # Of counts h: y holds their changes, and (A C⁻¹ y), rounded, is what is published.
    counts = [np.array([7 * t, 100 - t, t % 2]) for t in range(len(drawn))]
    before = [np.zeros(3, dtype=int), *counts]
    changes = [now - then for now, then in zip(counts, before, strict=False)]
    y = [
        sum(stream.coefficients[t - k] * changes[k] for k in range(t + 1)) + z
        for t, z in enumerate(drawn)
    ]
    of_y = [math.floor(n + Fraction(1, 2)) for n in exact_noise(stream, y)]
    assert (counts[-1] + stream.noise(drawn)).tolist() == of_y


def test_weights_say_how_much_noise_a_night_has():
    stream = Continual(40)
    release = continual_release(PROMISED, stream, ONE)
    drawn = [sample(release.table, 20_000, KeyedBits(bytes([n]) * 32)) for n in range(40)]
    for night in (1, 7, 40):
        weights = stream.weights(night)
        deviation = math.sqrt(release.table.variance * float(weights @ weights))
        found = float(np.std(stream.noise(drawn[:night])))
        assert abs(found / deviation - 1) < 6 / math.sqrt(2 * 20_000)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((0,), "nights"),
        ((2001,), "nights"),
        ((3.5,), "nights"),
        ((9, 3), "even"),
        ((501, 4), "nights"),
        ((9, 0), "moves"),
    ],
)
def test_what_is_no_session_is_refused(arguments, why):
    with pytest.raises((TypeError, ValueError), match=why):
        Continual(*arguments)


# ------------------------------------------------------------------------------- private sums

LAYOUT = Layout((4,))


def total(layout: Layout = LAYOUT) -> ClearSum:
    rows = np.tile(np.arange(layout.length, dtype=np.int32), (3, 1))
    return ClearSum(layout, ClientRows(rows, layout))


def seeds(nights: int) -> list[bytes]:
    return [SystemBits().words(4).tobytes() for _ in range(nights)]


def test_the_noise_of_a_night_hides_one_sum():
    stream = Continual(9)
    release, night = continual_release(PROMISED, stream, ONE), NightNoise(stream, seeds(2))
    total().release(release, night)
    with pytest.raises(RuntimeError):
        total().release(release, night)


def test_a_night_needs_the_release_of_its_whole_session():
    stream = Continual(365)
    for release in (
        continual_release(PROMISED, Continual(30), ONE),
        Release("discrete-laplace", discrete_laplace(2.1), (1, -1), Guarantee(1.0)),
    ):
        with pytest.raises(ValueError, match="session"):
            total().release(release, NightNoise(stream, seeds(1)))


def test_a_session_has_no_more_nights_than_were_paid_for():
    with pytest.raises(ValueError, match="night"):
        NightNoise(Continual(3), seeds(4))
    with pytest.raises(ValueError, match="night"):
        NightNoise(Continual(3), [])


def test_a_session_hides_counts_of_records_and_nothing_else():
    stream = Continual(3)
    release = continual_release(PROMISED, stream, ONE)
    alike = Layout((4,), allotment=Allotment((1,), alike=3))
    with pytest.raises(ValueError, match="counts"):
        total(alike).release(release, NightNoise(stream, seeds(1)))
    whole = Guarantee(1.0, 1e-6, protects=WholeClients(1000))
    ball = Ball(2, 1000**2, 1000)
    of_clients = Release("discrete-gaussian", discrete_gaussian(6_000.0), ball, whole)
    with pytest.raises(ValueError, match="counts"):
        total().release(of_clients, NightNoise(stream, seeds(1)))


def test_a_fork_does_not_draw_the_same_noise():
    stream = Continual(9)
    release, night = continual_release(PROMISED, stream, ONE), NightNoise(stream, seeds(1))

    def again() -> bytes:
        try:
            total().release(release, night)
        except RuntimeError as refusal:
            return str(refusal).encode()
        return b"drawn"

    assert b"belongs to the process" in in_a_fork(again)
    total().release(release, night)


def test_night_noise_shows_nothing():
    night = NightNoise(Continual(3), [b"\x07" * 32])
    assert "7" not in repr(night)
    assert not [name for name in dir(night) if "seed" in name]


def test_keyed_words_repeat_for_a_key_and_differ_between_keys():
    one, again, other = (KeyedBits(key * 32).words(1000) for key in (b"a", b"a", b"b"))
    assert (one == again).all()
    assert not (one == other).any()
