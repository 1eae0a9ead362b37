"""Handwriting: validation, grouping by writer, splitting."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.clients.handwriting import Handwriting, load_npz
from flwr_kld.simulations.handwriting.source import split_writers


def numbered(writer: list[int], labels: list[int] | None = None) -> Handwriting:
    """Handwriting whose image i has i in its corner."""
    images = np.zeros((len(writer), 8, 8), dtype=np.uint8)
    images[:, 0, 0] = np.arange(len(writer))
    shown = np.array(labels or [0] * len(writer), dtype=int)
    return Handwriting(images, shown, np.array(writer, dtype=int))


def numbers(data: Handwriting) -> list[int]:
    """Which images are there, in order."""
    return [int(x) for x in data.images[:, 0, 0]]


def test_of_writer_keeps_the_order_of_the_data() -> None:
    data = numbered([7, -2, 7, 40, -2, 7])
    assert data.writers.tolist() == [-2, 7, 40]
    assert numbers(data.of_writer(7)) == [0, 2, 5]
    assert numbers(data.of_writer(-2)) == [1, 4]
    assert data.of_writer(40).writer.tolist() == [40]


@given(st.lists(st.integers(-5, 5), max_size=40))
def test_writers_partition_the_data(writer: list[int]) -> None:
    data = numbered(writer)
    assert data.writers.tolist() == sorted(set(writer))
    for w in set(writer):
        assert numbers(data.of_writer(w)) == [i for i, x in enumerate(writer) if x == w]


def test_with_labels_keeps_images_labels_and_writers_together() -> None:
    data = numbered([1, 1, 2, 3], labels=[5, 40, 5, 9])
    kept = data.with_labels([5])
    assert (numbers(kept), kept.labels.tolist(), kept.writer.tolist()) == ([0, 2], [5, 5], [1, 2])
    assert numbers(data.with_labels()) == [0, 2, 3]
    assert kept.writers.tolist() == [1, 2]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(0, 2**32))
def test_split_writers_shares_no_writer_and_loses_no_image(writer: list[int], seed: int) -> None:
    data = numbered(writer)
    if len(set(writer)) < 2:
        with pytest.raises(ValueError, match="writers"):
            split_writers(data, seed)
        return
    first, second = split_writers(data, seed)
    assert not set(first.writers) & set(second.writers)
    assert sorted(numbers(first) + numbers(second)) == list(range(len(writer)))
    assert 0 <= len(first.writers) - len(second.writers) <= 1


def test_split_writers_depends_on_the_seed_alone() -> None:
    data = numbered(list(range(20)))
    halves = [tuple(split_writers(data, seed)[0].writers) for seed in (1, 1, 2, 3)]
    assert halves[0] == halves[1]
    assert len(set(halves)) == 3


def test_patterns_fit_the_images() -> None:
    data = numbered([0])
    assert data.patterns().encode(data.images).tolist() == [0xFFFF]
    digits = Handwriting(data.images, data.labels, data.writer, pixels="digits")
    assert digits.patterns(0.5).spec()["pixels"] == "digits"
    assert digits.patterns(0.5).spec()["threshold"] == 0.5


def test_repr_shows_no_data() -> None:
    assert repr(numbered([3] * 17)) == "Handwriting(side=8, pixels='uint8')"


IMAGES, ONES = np.full((3, 8, 8), 217, dtype=np.uint8), np.ones(3, dtype=int)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IMAGES.astype(float), ONES, ONES), "uint8"),
        ((IMAGES[:, :7], ONES, ONES), "square"),
        ((IMAGES[0], ONES, ONES), "square"),
        ((IMAGES, ONES[:2], ONES), "length"),
        ((IMAGES, ONES, ONES[:2]), "length"),
        ((IMAGES, ONES * 217.0, ONES), "labels"),
        ((IMAGES, ONES, ONES.astype(str)), "writer"),
        ((IMAGES, ONES[np.newaxis], ONES), "labels"),
        ((IMAGES, -217 * ONES, ONES), "negative"),
        ((IMAGES, ONES, ONES, "digits"), "outside"),
        ((IMAGES, ONES, ONES, "unit"), "pixels"),
    ],
)
def test_bad_arrays_are_refused_and_shown_to_nobody(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Handwriting(*arguments)
    assert "217" not in str(caught.value)


@pytest.mark.parametrize("writer", [-1, 4, 217])
def test_an_unknown_writer_is_refused(writer: int) -> None:
    with pytest.raises(ValueError, match="writer") as caught:
        numbered([0, 3, 9]).of_writer(writer)
    assert str(writer) not in str(caught.value)


@pytest.mark.skipif("FLWR_KLD_WRITERS_NPZ" not in os.environ, reason="needs a file of writers")
def test_real_writers() -> None:
    data = load_npz(os.environ["FLWR_KLD_WRITERS_NPZ"])
    first, second = split_writers(data, 0)
    assert len(first) + len(second) == len(data)
    assert sum(len(data.of_writer(w)) for w in data.writers) == len(data)
    domain = data.patterns()
    background = np.stack([domain.pattern(s) for s in domain.encode(first.images)])
    assert background[:, 0, 0].mean() > 0.9 > 0.1 > background[:, 1:3, 1:3].mean()
