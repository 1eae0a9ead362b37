"""The digits that ship with scikit-learn, and one name for each source of handwriting."""

import json
from pathlib import Path

import numpy as np
import pytest

from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.simulations.handwriting.source import load_digits, load_source


def as_set(data: Handwriting) -> set[tuple[int, bytes]]:
    return {(int(y), x.tobytes()) for x, y in zip(data.images, data.labels, strict=True)}


def test_digits_are_scikit_learns_and_cut_evenly() -> None:
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    data = load_digits(4)
    assert np.array_equal(data.images, bunch.images)
    assert np.array_equal(data.labels, bunch.target)
    assert np.unique(data.writer, return_counts=True)[1].tolist() == [450, 449, 449, 449]
    assert data.images.dtype == np.uint8
    assert (data.pixels, data.side) == ("digits", 8)


def test_a_number_of_clients_is_the_even_partition() -> None:
    iid = pytest.importorskip("flwr_datasets.partitioner").IidPartitioner
    for clients in (1, 10):
        ours, theirs = load_digits(clients), load_digits(iid(num_partitions=clients))
        assert np.array_equal(ours.writer, theirs.writer)
        assert np.array_equal(ours.images, theirs.images)
        assert np.array_equal(ours.labels, theirs.labels)


def test_digits_can_be_cut_unevenly() -> None:
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    dirichlet = partitioners.DirichletPartitioner(
        num_partitions=5, partition_by="label", alpha=0.1, min_partition_size=1, seed=3
    )
    data = load_digits(dirichlet)
    assert data.writers.tolist() == [0, 1, 2, 3, 4]
    assert len(data) == 1797
    assert as_set(data) == as_set(load_digits(1))
    shares = [np.bincount(data.of_writer(w).labels, minlength=10) / 1797 for w in range(5)]
    assert max(share.max() / share.sum() for share in shares) > 0.3


def test_one_name_for_each_source(tmp_path: Path) -> None:
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
    np.savez(tmp_path / "w.npz", images=images, labels=[4, 12], writer=[9, 8])
    assert load_source(tmp_path / "w.npz").labels.tolist() == [4]
    assert load_source(str(tmp_path / "w.npz"), labels=range(62)).labels.tolist() == [4, 12]
    (tmp_path / "leaf").mkdir()
    user = {"x": [[1.0] * 784] * 2, "y": [1, 61]}
    content = {"users": ["f1"], "num_samples": [2], "user_data": {"f1": user}}
    (tmp_path / "leaf/all_data_0.json").write_text(json.dumps(content))
    assert load_source(tmp_path / "leaf").labels.tolist() == [1]
    assert load_source(tmp_path / "leaf", labels=[61]).pages
    with pytest.raises(FileNotFoundError):
        load_source("digit")
