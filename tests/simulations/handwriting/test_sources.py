"""The digits that ship with scikit-learn, and one name for each source of handwriting."""

from pathlib import Path

import numpy as np
import pytest

from flwr_kld.simulations.handwriting.source import load_digits, load_source


def test_digits_are_scikit_learns_and_cut_evenly() -> None:
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    data = load_digits(4)
    assert np.array_equal(data.images, bunch.images)
    assert np.array_equal(data.labels, bunch.target)
    assert np.unique(data.writer, return_counts=True)[1].tolist() == [450, 449, 449, 449]
    assert data.images.dtype == np.uint8
    assert (data.pixels, data.side) == ("digits", 8)


def test_one_name_for_each_source(tmp_path: Path) -> None:
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
    np.savez(tmp_path / "w.npz", images=images, labels=[4, 12], writer=[9, 8])
    assert load_source(tmp_path / "w.npz").labels.tolist() == [4]
    with pytest.raises(FileNotFoundError):
        load_source("digit")
