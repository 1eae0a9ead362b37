"""Private counts show nothing; noisy counts follow the table."""

import traceback

import numpy as np
import pytest
from numbered import Numbered
from rows import answered, clear_of, counted, rows_of, values_of
from scipy import stats

from flwr_kld.ask.partition import Partition
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import apply_masks
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SeededBits, SystemBits, sample
from flwr_kld.kernel.promise import Ball, WholeClients
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, ClientRows, Held, Layout
from flwr_kld.reference import Reference
from flwr_kld.trust.calibration import calibrate_shares, calibrated_laplace, least_noise

REFERENCE = Reference.from_counts(Numbered(5), [4, 3, 2, 1, 0])
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
SECRET = 86_753_09
EVENTS = {
    "record": calibrated_laplace(Guarantee(1.0)),
    "client": least_noise(Guarantee(1.0, protects=WholeClients(20)), Ball(1, 20, 20)),
}


def clear(*rows) -> ClearSum:
    return clear_of(PLAN.layout, *rows)


@pytest.mark.parametrize(
    ("values", "limits", "message"),
    [
        ([1, -SECRET, 0, 0, 0], {}, "must not be negative"),
        ([-(2**31)] * 5, {}, "must not be negative"),
        ([SECRET, 0, 0, 0, 0], {"most": 10}, "exceed the most records"),
        ([SECRET, 1, 0, 0, 0], {"most": SECRET}, "exceed the most records"),
        ([LARGEST_CLIENT] * 5, {}, "exceed the most records"),  # in 32 bits, a small number
        ([SECRET] * 4, {}, "wrong shape"),
        ([SECRET] * 10, {}, "wrong shape"),
        ([], {}, "wrong shape"),
        ([0] * 5, {"empty": False}, "no records"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_bad_row_is_left_out_without_a_value_and_no_other(values, limits, message, place):
    rows = [[1, 2, 3, 4, 0], [0, 0, 0, 0, 9]]
    rows.insert(place, values)
    found = answered(PLAN.layout, *rows, **limits)
    assert values_of(found).tolist() == [1, 2, 3, 4, 9]
    assert found.clients == 2
    ((who, why),) = found.refused.items()
    assert who == place
    assert message in why
    assert str(SECRET) not in why


def test_a_table_whose_columns_contradict_each_other_is_left_out():
    rows = [[1, 1, 2], [1, 0, 2], [0, 3, 3]]
    found = answered(Layout((2, 1)), *rows)
    assert values_of(found).tolist() == [1, 4, 5]
    assert list(found.refused) == [1]


def test_nobody_may_ask_who_has_no_records_where_that_is_hidden():
    hidden = Guarantee(1.0, 0.0, protects=WholeClients(1))
    with pytest.raises(ValueError, match="protected"):
        answered(PLAN.layout, [0] * 5, empty=False, guarantee=hidden)
    assert answered(PLAN.layout, [0] * 5, guarantee=hidden).clients == 1


def test_answers_are_read_some_at_a_time_as_they_would_be_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 9, (60, 5))
    whole = answered(PLAN.layout, *rows)
    monkeypatch.setattr("flwr_kld.kernel.vector._AT_ONCE", 12)
    wire = [([i], Held([row.astype("<i4").tobytes()])) for i, row in enumerate(rows)]
    parts = ClearSum.of_answers(wire, PLAN.layout, Guarantee(1.0))
    assert values_of(parts).tolist() == values_of(whole).tolist()
    assert (parts.refused, parts.sizes, parts.clients) == (
        whole.refused, whole.sizes, whole.clients,
    )  # fmt: skip
    assert 0 < len(whole.refused) < 60


def test_nobody_answers_and_nothing_is_added_up():
    found = ClearSum.of_answers([], PLAN.layout, Guarantee(1.0))
    assert (found.clients, values_of(found).tolist(), found.sizes) == (0, [0] * 5, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[SECRET] * 5]), "dtype"),
        (np.array([[SECRET] * 5], np.uint32), "dtype"),
        (np.array([[float("nan")] * 5]), "dtype"),
        (np.array([[SECRET] * 5], object), "dtype"),
        (np.array([[SECRET] * 4], np.int32), "shape"),
        (np.array([SECRET] * 5, np.int32), "shape"),
        (np.array(SECRET, np.int32), "shape"),
    ],
)
def test_rows_of_another_form_are_refused_without_a_value(values, message):
    with pytest.raises(InvalidReply, match=message) as refusal:
        ClientRows(values, PLAN.layout)
    said = "".join(traceback.format_exception(refusal.value))
    assert str(SECRET) not in said
    assert refusal.value.__cause__ is refusal.value.__context__ is None


def test_the_largest_client_cannot_wrap_around():
    two = clear((LARGEST_CLIENT, 0, 0, 0, 0), (LARGEST_CLIENT, 0, 0, 0, 0))
    assert values_of(two)[0] == 2 * LARGEST_CLIENT


def test_large_counts_in_fine_steps_are_not_told_by_a_refusal():
    """A server that asks for a fine grid would learn whether a client's count is beyond a bound."""
    share = calibrate_shares(Guarantee(6.0, 1e-6), n_min=200, mechanism="discrete-gaussian")
    counts = rows_of(PLAN.layout, [LARGEST_CLIENT, 0, 0, 0, 0])
    assert share.grid * LARGEST_CLIENT >= 2**31
    noised, key = counts.summand(0, share, SystemBits()), bytes(32)
    put = np.frombuffer(noised.masked([key], [], length=5), "<u8").copy()
    apply_masks(put, [], [key])
    apart = (put.astype(object) - share.grid * values_of(counts)[0].astype(object)) % 2**64
    assert (np.minimum(apart, 2**64 - apart) < 100).all()


def test_exactly_the_most_records_are_accepted():
    assert answered(PLAN.layout, [3, 0, 2, 0, 0], most=5).clients == 1


EACH = [[0, 3, 3, 4], [], [1], [2] * 70_000, [0]]


@pytest.mark.parametrize("at_once", [1, 7, 2**20])
def test_each_client_counts_its_own_records(at_once, monkeypatch):
    """One without any, and a giant among them, whatever is counted at once."""
    for limit in ("_AT_ONCE", "_IN_CACHE"):
        monkeypatch.setattr(f"flwr_kld.kernel.vector.{limit}", at_once)
    each = [np.array(own[: 700 * at_once], dtype=np.int64) for own in EACH]
    rows = values_of(counted(PLAN, *each))
    assert rows.tolist() == [np.bincount(own, minlength=5).tolist() for own in each]
    assert rows.dtype == np.int32


def test_a_table_that_counts_columns_apart_is_refused_by_the_client_itself():
    """A cell of another column, of a plan that a server made up."""
    symbols, cells = [np.array([[0, 2], [1, 2]])], np.array([0, 2, 2], dtype=np.int32)
    with pytest.raises(InvalidReply, match="column"):
        ClientRows.count(symbols, cells, Layout((2, 1)), Guarantee(1.0), SystemBits())


def test_clients_without_records():
    empty = ClearSum(PLAN.layout, counted(PLAN, np.empty(0, dtype=np.int64)))
    assert values_of(empty).tolist() == [0] * PLAN.cells
    assert empty.is_empty(Guarantee(1.0))
    assert not clear((0, 0, 0, 0, 1)).is_empty(Guarantee(1.0))


def test_more_records_than_counts_can_carry():
    class Many(np.ndarray):
        def __len__(self):
            return LARGEST_CLIENT + 1

    with pytest.raises(InvalidReply, match="more"):
        counted(PLAN, np.zeros(3, dtype=np.int64).view(Many))


def test_sums_add_up():
    assert values_of(clear((1, 2, 3, 4, 5), (0, 0, 1, 0, 9))).tolist() == [1, 2, 4, 4, 14]
    assert clear((1, 2, 3, 4, 5)).layout == PLAN.layout


@pytest.mark.parametrize(
    "private", [rows_of(PLAN.layout, [SECRET, 0, 0, 0, 0]), clear((SECRET, 0, 0, 0, 0))]
)
def test_private_counts_show_no_value(private):
    shown = [repr(private), str(private), f"{private}", f"{private!r:>60}", f"{[private]}"]
    assert all("<private>" in text and str(SECRET) not in text for text in shown)
    assert not hasattr(private, "__dict__")
    with pytest.raises(TypeError, match="vars"):
        vars(private)


@pytest.mark.parametrize("protects", EVENTS)
def test_the_release_adds_what_the_sampler_draws(protects):
    event = EVENTS[protects]
    total = answered(PLAN.layout, (9, 0, 3, 1, 7), guarantee=event.guarantee)
    noisy = total.release(event, SeededBits(6))
    noise = sample(event.table, PLAN.cells, SeededBits(6))
    assert noise.any()
    assert noisy.values.tolist() == np.add([9, 0, 3, 1, 7], noise).tolist()
    assert noisy.release is event
    assert noisy.clients == 1


def test_records_are_exact_where_single_records_are_protected():
    for seed in range(20):
        noisy = clear((9, 0, 3, 1, 7)).release(EVENTS["record"], SeededBits(seed))
        assert noisy.records == 20


def test_records_are_estimated_from_the_noisy_cells_where_whole_clients_are():
    seen, event = set(), EVENTS["client"]
    for seed in range(20):
        total = answered(PLAN.layout, (9, 0, 3, 1, 7), guarantee=event.guarantee)
        noisy = total.release(event, SeededBits(seed))
        assert noisy.records == max(noisy.values.sum(), 1)
        seen.add(noisy.records)
    assert len(seen) > 5


@pytest.mark.parametrize("protects", EVENTS)
def test_there_is_at_least_one_record(protects):
    event = EVENTS[protects]
    for seed in range(20):
        total = answered(PLAN.layout, (0, 0, 0, 0, 0), guarantee=event.guarantee)
        noisy = total.release(event, SeededBits(seed))
        assert noisy.records >= 1


def test_only_seeded_noise_is_not_private():
    for bits, private in ((SystemBits(), True), (SeededBits(0), False)):
        noisy = clear((1, 0, 0, 0, 0)).release(EVENTS["record"], bits)
        assert noisy.private is private


@pytest.mark.rate(1e-6)
def test_the_noise_of_each_cell_has_the_law_of_the_table_and_cells_are_independent():
    event, bits, counted = EVENTS["record"], SystemBits(), clear((9, 0, 3, 1, 7))
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
