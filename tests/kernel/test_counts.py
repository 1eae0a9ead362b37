"""Private counts show nothing; noisy counts follow the table."""

import traceback

import numpy as np
import pytest
from numbered import Numbered
from scipy import stats

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.calibration.shares import calibrate_shares
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import apply_masks
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SeededBits, SystemBits, sample
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, ClientCounts
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference

REFERENCE = Reference.from_counts(Numbered(5), [4, 3, 2, 1, 0])
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
SECRET = 86_753_09
EVENTS = {adjacency: calibrated_laplace(Guarantee(1.0, 0.0, adjacency)) for adjacency in Adjacency}


def client(*values, cells=5, **limits) -> ClientCounts:
    return ClientCounts(np.array(values, dtype=np.int32), cells=cells, **limits)


def clear(*rows) -> ClearSum:
    return ClearSum([client(*row) for row in rows], PLAN.layout)


@pytest.mark.parametrize(
    ("values", "limits", "message"),
    [
        (np.array([1, -SECRET, 0, 0, 0], np.int32), {}, "must not be negative"),
        (np.array([SECRET, 0, 0, 0, 0], np.int32), {"most": 10}, "exceed the most records"),
        (np.array([SECRET, 1, 0, 0, 0], np.int32), {"most": SECRET}, "exceed the most records"),
        (np.array([SECRET] * 5, np.int64), {}, "wrong dtype: int32"),
        (np.array([SECRET] * 5, np.uint32), {}, "wrong dtype: int32"),
        (np.array([SECRET] * 5, ">i4"), {}, "wrong dtype: int32"),
        (np.array([SECRET] * 5, float), {}, "wrong dtype: int32"),
        (np.array([SECRET] * 5, object), {}, "wrong dtype: int32"),
        (np.array([str(SECRET)] * 5), {}, "wrong dtype: int32"),
        (np.array([SECRET] * 4, np.int32), {}, "wrong shape"),
        (np.array([[SECRET] * 5], np.int32), {}, "wrong shape"),
        (np.array(SECRET, np.int32), {}, "wrong shape"),
    ],
)
def test_bad_counts_are_refused_without_a_value(values, limits, message):
    with pytest.raises(InvalidReply, match=message) as refusal:
        ClientCounts(values, cells=5, **limits)
    said = "".join(traceback.format_exception(refusal.value))
    assert str(SECRET) not in said
    assert refusal.value.__cause__ is refusal.value.__context__ is None


def test_the_largest_client_cannot_wrap_around():
    """Five counts of 2**31 - 1 would sum to a small number in 32 bits."""
    with pytest.raises(InvalidReply, match="exceed the most records"):
        client(*[LARGEST_CLIENT] * 5)
    assert client(LARGEST_CLIENT, 0, 0, 0, 0)._values[0] == LARGEST_CLIENT
    two = clear((LARGEST_CLIENT, 0, 0, 0, 0), (LARGEST_CLIENT, 0, 0, 0, 0))
    assert two._values[0] == 2 * LARGEST_CLIENT


@pytest.mark.parametrize("bits", [32, 64])
def test_what_leaves_the_ring_is_not_told_by_a_refusal(bits):
    """A server that asks for a fine grid would learn whether a client's count is beyond a bound."""
    share = calibrate_shares(Guarantee(6.0, 1e-6), n_min=200, mechanism="discrete-gaussian")
    counts = client(LARGEST_CLIENT, 0, 0, 0, 0)
    assert share.grid * LARGEST_CLIENT >= 2**31
    noised, key = counts.summand(share, SystemBits()), bytes(32)
    put = np.frombuffer(noised.masked([key], [], length=5, bits=bits), f"<u{bits // 8}").copy()
    apply_masks(put, [], [key])
    apart = (put.astype(object) - share.grid * counts._values.astype(object)) % 2**bits
    assert (np.minimum(apart, 2**bits - apart) < 100).all()


def test_a_client_counts_its_own_records():
    counted = ClientCounts.count(np.array([0, 3, 3, 4]), PLAN.cell_of, PLAN.cells)._values
    assert counted.tolist() == [1, 0, 0, 2, 1]
    assert counted.dtype == np.int32


def test_a_client_without_records_counts_zeros():
    empty = ClientCounts.count(np.empty(0, dtype=np.int64), PLAN.cell_of, PLAN.cells)
    assert empty._values.tolist() == [0] * PLAN.cells
    assert ClearSum([empty], PLAN.layout).is_empty(Guarantee(1.0))
    assert not clear((0, 0, 0, 0, 1)).is_empty(Guarantee(1.0))


def test_more_records_than_counts_can_carry():
    class Many(np.ndarray):
        def __len__(self):
            return LARGEST_CLIENT + 1

    with pytest.raises(InvalidReply, match="more records than counts can carry"):
        ClientCounts.count(np.zeros(3, dtype=np.int64).view(Many), PLAN.cell_of, PLAN.cells)


def test_sums_add_up():
    assert clear((1, 2, 3, 4, 5), (0, 0, 1, 0, 9))._values.tolist() == [1, 2, 4, 4, 14]
    assert clear((1, 2, 3, 4, 5)).layout == PLAN.layout


@pytest.mark.parametrize("private", [client(SECRET, 0, 0, 0, 0), clear((SECRET, 0, 0, 0, 0))])
def test_private_counts_show_no_value(private):
    shown = [repr(private), str(private), f"{private}", f"{private!r:>60}", f"{[private]}"]
    assert all("<private>" in text and str(SECRET) not in text for text in shown)
    assert not hasattr(private, "__dict__")
    with pytest.raises(TypeError, match="vars"):
        vars(private)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_release_adds_what_the_sampler_draws(adjacency):
    event = EVENTS[adjacency]
    noisy = clear((9, 0, 3, 1, 7)).release(event, SeededBits(6))
    noise = sample(event.table, PLAN.cells, SeededBits(6))
    assert noise.any()
    assert noisy.values.tolist() == np.add([9, 0, 3, 1, 7], noise).tolist()
    assert noisy.release is event
    assert noisy.clients == 1


def test_records_are_exact_under_replace_one():
    for seed in range(20):
        noisy = clear((9, 0, 3, 1, 7)).release(EVENTS[Adjacency.REPLACE_ONE], SeededBits(seed))
        assert noisy.records == 20


def test_records_are_estimated_from_the_noisy_cells_under_add_remove():
    seen = set()
    for seed in range(20):
        noisy = clear((9, 0, 3, 1, 7)).release(EVENTS[Adjacency.ADD_REMOVE], SeededBits(seed))
        assert noisy.records == max(noisy.values.sum(), 1)
        seen.add(noisy.records)
    assert len(seen) > 5


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_there_is_at_least_one_record(adjacency):
    for seed in range(20):
        noisy = clear((0, 0, 0, 0, 0)).release(EVENTS[adjacency], SeededBits(seed))
        assert noisy.records >= 1


def test_only_seeded_noise_is_not_private():
    for bits, private in ((SystemBits(), True), (SeededBits(0), False)):
        noisy = clear((1, 0, 0, 0, 0)).release(EVENTS[Adjacency.REPLACE_ONE], bits)
        assert noisy.private is private


def test_the_noise_of_each_cell_has_the_law_of_the_table_and_cells_are_independent():
    event, bits, counted = EVENTS[Adjacency.REPLACE_ONE], SystemBits(), clear((9, 0, 3, 1, 7))
    repeats = 20_000
    noise = np.array([counted.release(event, bits).values for _ in range(repeats)]) - [
        9,
        0,
        3,
        1,
        7,
    ]
    expected = event.table.probabilities[np.abs(event.table.support) <= 8] * repeats
    pooled = np.append(expected, repeats - expected.sum())
    for cell in range(PLAN.cells):
        observed = [(noise[:, cell] == k).sum() for k in range(-8, 9)]
        observed.append(repeats - sum(observed))
        # False alarms: 1e-7 for each of 5 cells.
        assert stats.chisquare(observed, pooled).pvalue > 1e-7
        assert stats.chisquare(np.roll(observed[:-1], 1), observed[:-1]).pvalue < 1e-7
    off_diagonal = np.corrcoef(noise.T)[~np.eye(PLAN.cells, dtype=bool)]
    assert np.abs(off_diagonal).max() < 6 / repeats**0.5  # P < 2e-8 over the 10 pairs
