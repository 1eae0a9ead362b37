"""Since when counts have changed: simulated sessions with a change that is known, or none."""

import math

import numpy as np
import pytest

from flwr_kld.calibration.central import continual_release
from flwr_kld.inference.lasting_change import lasting_change
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Allotment, Guarantee

STREAM, NIGHTS, BEGINS = Continual(365), 60, 40
RELEASE = continual_release(Guarantee(1.0, 1e-6), STREAM, Allotment.even(1))


def noise_of(night: int) -> float:
    weights = STREAM.weights(night)
    return math.sqrt(RELEASE.table.variance * float(weights @ weights))


def counted(truth: np.ndarray, sums: int, seed: int) -> np.ndarray:
    """Sums of one count each, shape [sums, nights]."""
    bits = SeededBits(seed)
    drawn = [sample(RELEASE.table, sums, bits) for _ in truth]
    noise = [STREAM.noise(drawn[: night + 1]) for night in range(len(truth))]
    return np.transpose(np.array(noise) + truth[:, None]).astype(float)


def test_a_change_is_dated_and_sized_within_what_it_says():
    truth = np.full(NIGHTS, 1800.0)
    truth[BEGINS:] += 130
    found = [lasting_change(one, STREAM, noise_of(NIGHTS)) for one in counted(truth, 40, 1)]
    assert [one.since for one in found] == [BEGINS + 1] * 40
    assert all(one.at_once for one in found)
    off = np.array([(one.size - 130) / one.deviation for one in found])
    assert abs(off.mean()) < 4 / math.sqrt(40)
    assert 0.6 < off.std() < 1.5
    assert max(one.deviation for one in found) < 14


def test_more_each_night_is_told_from_at_once():
    truth = np.full(NIGHTS, 1800.0)
    truth[BEGINS:] += 15 * np.arange(1, NIGHTS - BEGINS + 1)
    found = [lasting_change(one, STREAM, noise_of(NIGHTS)) for one in counted(truth, 40, 2)]
    assert sum(not one.at_once for one in found) >= 36
    assert np.median([abs(one.since - BEGINS - 1) for one in found]) <= 3


@pytest.mark.parametrize("nights", [1, 2, NIGHTS])
def test_without_a_change_none_is_found(nights):
    found = counted(np.full(nights, 1800.0), 200, 3)
    assert [lasting_change(one, STREAM, noise_of(nights)) for one in found] == [None] * 200


def test_a_new_change_is_known_on_its_first_night():
    """As well as by the aim: within 14 records at epsilon = 1 for a year."""
    truth = np.full(NIGHTS, 1800.0)
    truth[-1] += 200
    found = [lasting_change(one, STREAM, noise_of(NIGHTS)) for one in counted(truth, 20, 4)]
    assert {one.since for one in found} == {NIGHTS}
    assert max(one.deviation for one in found) < 14
