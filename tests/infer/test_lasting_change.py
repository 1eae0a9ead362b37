"""Since when counts have changed: simulated sessions with a change that is known, or none."""

import math

import numpy as np
import pytest

from flwr_kld.infer.lasting_change import LastingChange, lasting_change
from flwr_kld.kernel.continual import UNIT, Continual
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Allotment, Guarantee
from flwr_kld.trust.calibration import continual_release

STREAM, NIGHTS, BEGINS = Continual(365), 60, 40
RELEASE = continual_release(Guarantee(1.0, 1e-6), STREAM, Allotment.even(1))


def noise_of(night: int) -> float:
    weights = STREAM.weights(night)
    return math.sqrt(RELEASE.table.variance * float(weights @ weights))


def counted(truth: np.ndarray, seed: int) -> np.ndarray:
    """Counts with their noise, shape [nights, cells]."""
    bits = SeededBits(seed)
    drawn = np.array([sample(RELEASE.table, truth.shape[1], bits) for _ in truth])
    noise = [STREAM.weights(night) @ drawn[:night] for night in range(1, len(truth) + 1)]
    return np.rint(np.array(noise) + truth)


def moved(records: float, cells: int, nights: int = NIGHTS) -> np.ndarray:
    """Counts of which some records leave the first cell for the second one."""
    truth = np.full((nights, cells), 1800.0)
    truth[BEGINS:, :2] += np.array([-records, records])
    return truth


@pytest.mark.parametrize(("cells", "records"), [(2, 100), (20, 130), (400, 200)])
def test_a_change_is_dated(cells, records):
    truth = moved(records, cells)
    found = [lasting_change(counted(truth, i), STREAM, noise_of(NIGHTS)) for i in range(20)]
    assert found == [LastingChange(BEGINS + 1, at_once=True)] * 20


def test_more_each_night_is_told_from_at_once():
    truth = moved(0, 2)
    truth[BEGINS:] += np.outer(np.arange(1, NIGHTS - BEGINS + 1), [-15, 15])
    found = [lasting_change(counted(truth, i), STREAM, noise_of(NIGHTS)) for i in range(40)]
    assert sum(not one.at_once for one in found) >= 36
    assert np.median([abs(one.since - BEGINS - 1) for one in found]) <= 3


@pytest.mark.parametrize(("nights", "cells"), [(1, 2), (2, 2), (NIGHTS, 2), (NIGHTS, 400)])
def test_without_a_change_none_is_found(nights, cells):
    """However many counts there are in whose direction noise may point."""
    truth = np.full((nights, cells), 1800.0)
    runs = max(400 // cells, 10)
    found = [lasting_change(counted(truth, i), STREAM, noise_of(nights)) for i in range(runs)]
    assert found == [None] * runs


@pytest.mark.rate(1e-6)
def test_a_new_change_is_known_on_its_first_night():
    """By eight deviations of what the noise of a night does not share with that before."""
    truth = np.full((NIGHTS, 1), 1800.0)
    truth[-1] += 8 * math.sqrt(RELEASE.table.variance) / UNIT
    found = [lasting_change(counted(truth, i), STREAM, noise_of(NIGHTS)) for i in range(20)]
    # Of 20, others are a night off, or found the next night.
    assert sum(one is not None and one.since == NIGHTS for one in found) >= 14
