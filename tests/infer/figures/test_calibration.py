"""Calibration and accuracy, from the noised counts of predictions × outcomes."""

import numpy as np
import pytest
from chance import most

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.figures.calibration import calibration
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.trust.calibration import calibrated_laplace

EVENT = calibrated_laplace(Guarantee(0.3))
BINS = Binned(np.linspace(0, 1, 11)[1:-1])
MIDDLES = np.linspace(0.05, 0.95, 10)
LABELS = Labels(["no", "yes"])
RUNS = 200


def column(predicted, outcome):
    table = Table({"prediction": predicted, "label": outcome}, [("prediction", "label")])
    return table.columns["prediction × label"]


def noised(domain, counts, bits=None, *, floor: float = 0.1) -> NoisyCounts:
    """Counts of combinations, shape [predictions, outcomes]; exact without bits."""
    whole = np.zeros([one.size for one in domain.domains.values()], dtype=np.int64)
    whole[tuple(map(slice, np.shape(counts)))] = counts
    reference = Reference.from_counts(domain, whole.ravel() + 0.0, floor=floor)
    plan = Partition(100).draw(reference, np.random.default_rng(0))
    values = np.bincount(plan.cell_of, whole.ravel(), plan.cells).astype(np.int64)
    if bits is not None:
        values = values + sample(EVENT.table, plan.cells, bits)
    return NoisyCounts(values, float(whole.sum()), EVENT, plan, True)


def drawn(rng, events, records=20_000):
    """Counts of as many records in each bin, of which a share are events."""
    each = np.full(len(events), records // len(events))
    yes = rng.binomial(each, events)
    return np.stack([each - yes, yes], axis=1)


def test_exact_counts_give_the_exact_figures():
    counts = np.array([[900, 100], [400, 600]]) * 1000
    found = calibration(noised(column(Binned([0.5]), LABELS), counts))
    assert found.accuracy.value == pytest.approx(0.75)
    expected = (abs(100 - 250) + abs(600 - 750)) / 2000  # bins stand for 0.25 and 0.75
    assert found.error.value == pytest.approx(expected, abs=1e-4)


def test_predicted_labels_have_an_accuracy():
    found = calibration(noised(column(LABELS, LABELS), np.array([[700, 100], [50, 150]]) * 100))
    assert found.accuracy.value == pytest.approx(0.85)
    assert found.error is None


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_limits_hold_the_truth(shift):
    """At 95 %, in 200 runs."""
    rng, bits = np.random.default_rng(7), SeededBits(7)
    events = np.clip(MIDDLES + shift, 0, 1)
    truth = np.abs(events - MIDDLES).mean()
    right = np.where(MIDDLES > 0.5, events, 1 - events).mean()
    domain = column(BINS, LABELS)
    held, errors = np.zeros(2), []
    for _ in range(RUNS):
        found = calibration(noised(domain, drawn(rng, events), bits))
        for i, (figure, value) in enumerate([(found.error, truth), (found.accuracy, right)]):
            held[i] += figure.low - 1e-12 <= value <= figure.high + 1e-12
        errors.append(found.error.value - truth)
    assert (RUNS - held <= most(RUNS, 0.05)).all(), held
    assert abs(np.mean(errors)) < 0.005


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("labels", [2, 8])
@pytest.mark.parametrize("right", [0.5, 1.0])
def test_limits_hold_where_noise_is_much_of_the_number_of_records(labels, right):
    """Of 60 records under noise in 4 or 64 cells; at 95 %, in 200 runs."""
    rng, bits = np.random.default_rng(7), SeededBits(7)
    names = Labels([*"abcdefgh"[:labels]])
    domain = column(names, names)
    law = np.full((labels, labels), (1 - right) / (labels**2 - labels))
    np.fill_diagonal(law, right / labels)
    held = 0
    for _ in range(RUNS):
        counts = rng.multinomial(60, law.ravel()).reshape(law.shape)
        found = calibration(noised(domain, counts, bits)).accuracy
        held += found.low - 1e-12 <= right <= found.high + 1e-12
    assert RUNS - held <= most(RUNS, 0.05)


def test_limits_are_as_wide_as_the_error():
    found = calibration(noised(column(LABELS, LABELS), [[200, 200], [100, 100]])).accuracy
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(found.deviation, rel=0.05)


@pytest.mark.parametrize(
    "domain",
    [
        column(Binned([-1.0, 0.5]), LABELS),
        column(BINS, Labels(["a", "b", "c"])),
        column(Labels(["a", "b"]), LABELS),
        column(LABELS, Binned([0.5])),
        LABELS,
    ],
)
def test_other_columns_tell_of_no_model(domain):
    reference = Reference.from_counts(domain, np.ones(domain.size))
    plan = Partition(100).draw(reference, np.random.default_rng(0))
    noisy = NoisyCounts(np.ones(plan.cells, dtype=np.int64), 10.0, EVENT, plan, True)
    assert calibration(noisy) is None


def test_combinations_that_share_a_cell_tell_nothing():
    counts = np.array([[900, 0], [0, 600]])
    assert calibration(noised(column(Binned([0.5]), LABELS), counts, floor=0.0)) is None


def test_few_records_keep_limits_within_a_share():
    found = calibration(noised(column(Binned([0.5]), LABELS), np.eye(2)))
    assert found.error.high <= 1
    assert 0 <= found.accuracy.low <= found.accuracy.high <= 1
