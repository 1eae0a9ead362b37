"""Loading .npz files, and what is said when they are wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flwr_kld.clients.handwriting import Handwriting, load_leaf, load_npz
from flwr_kld.simulations.handwriting.source import load_source
from flwr_kld.table.block_patterns import BlockPatterns

IMAGES = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
ARRAYS: dict[str, Any] = {"images": IMAGES, "labels": np.array([4, 2]), "writer": np.array([9, 8])}


def test_npz_round_trip(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "w.npz", **ARRAYS, other=np.zeros(3))
    data = load_npz(tmp_path / "w.npz")
    assert np.array_equal(data.images, IMAGES)
    assert (data.labels.tolist(), data.writer.tolist(), data.pixels) == ([4, 2], [9, 8], "uint8")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({**ARRAYS, "writer": np.array(["x217", 3], dtype=object)}, "pickled"),
        ({k: ARRAYS[k] for k in ("images", "labels")}, "images, labels and writer"),
        ({**ARRAYS, "labels": np.array([217.0, 1])}, "labels must be"),
        ({**ARRAYS, "images": IMAGES.astype(np.int16)}, "uint8"),
    ],
)
def test_a_bad_npz_is_refused_by_name(tmp_path: Path, arrays: Any, message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=rf"^bad\.npz.*{message}") as caught:
        load_npz(tmp_path / "bad.npz")
    assert "217" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_what_is_not_an_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        load_npz(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("217")
    with pytest.raises(ValueError, match=r"text\.npz"):
        load_npz(tmp_path / "text.npz")
    np.savez(tmp_path / "cut.npz", **ARRAYS)
    damaged = bytearray((tmp_path / "cut.npz").read_bytes())
    damaged[200] ^= 0xFF
    (tmp_path / "cut.npz").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"cut\.npz"):
        load_npz(tmp_path / "cut.npz")


def test_whatever_byte_is_damaged_the_file_is_named(tmp_path: Path) -> None:
    """Some damage is zlib's to find, some zipfile's, and some NumPy's."""
    file = tmp_path / "cut.npz"
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28)).astype(np.uint8)
    np.savez_compressed(file, images=images, labels=np.arange(20), writer=np.arange(20))
    whole, said = file.read_bytes(), []
    for place in range(0, len(whole), 101):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        file.write_bytes(damaged)
        try:  # a byte of a name or a date may be any
            load_npz(file)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 100
    assert {words.split(" ")[0].rstrip(":") for words in said} == {"cut.npz"}


def test_the_default_patterns_see_through_halos_and_the_papers_do_not() -> None:
    """A stroke in the middle of a large page, and ink of 1 to 5 of 255 in every block."""
    ink = np.resize(np.arange(6, dtype=np.uint8), (28, 28))
    ink[8:20, 8:20] += np.kron(np.eye(4), np.ones((3, 3))).astype(np.uint8) * 178
    data = Handwriting(ink[None], np.array([20]), np.array([0]))
    papers = data.patterns(cropped=False)
    assert papers == BlockPatterns()
    assert papers.name_of(papers.encode(data.images)[0]) == "/".join(["####"] * 4)
    fit = data.patterns()
    assert fit.name_of(fit.encode(data.images)[0]) == "#.../.#../..#./...#"


def leaf(images: Any, labels: Any) -> dict[str, Any]:
    """What LEAF writes of a writer: dark ink on white, as fractions of white."""
    white = (255 - images.reshape(len(images), -1).astype(float)) / 255
    return {"x": white.tolist(), "y": list(labels)}


@pytest.fixture
def pages() -> Any:
    """Four images, ink in a part of each."""
    images = np.zeros((4, 28, 28), np.uint8)
    images[:, 4:16, 9:21] = np.random.default_rng(0).integers(0, 256, (4, 12, 12))
    return images


def test_leafs_json_is_read_and_has_the_alphabet_of_every_door(pages: Any, tmp_path: Path) -> None:
    for k, (name, own) in enumerate({"f9_00": slice(0, 3), "f1_02": slice(3, 4)}.items()):
        wrote = {name: leaf(pages[own], [3, 40, 9, 0][own])}
        found = {"users": [name], "num_samples": [len(pages[own])], "user_data": wrote}
        (tmp_path / f"all_data_{k}.json").write_text(json.dumps(found))
    data = load_leaf(tmp_path)
    assert data.labels.tolist() == [3, 9, 0]
    assert data.writer.tolist() == [1, 1, 0]
    assert np.array_equal(data.images, pages[[0, 2, 3]])
    assert len(load_leaf(tmp_path / "all_data_0.json", labels=range(62))) == 3
    np.savez(tmp_path / "w.npz", images=pages, labels=[3, 40, 9, 0], writer=[1, 1, 1, 0])
    other = load_npz(tmp_path / "w.npz").with_labels()
    assert data.patterns().fingerprint == other.patterns().fingerprint
    assert np.array_equal(
        data.patterns().encode(data.images), other.patterns().encode(other.images)
    )
    assert load_source(tmp_path).labels.tolist() == [3, 9, 0]


@pytest.mark.parametrize(
    "text",
    ["217", "{}", '{"user_data": 217}', '{"user_data": {"a": {"x": [[2.17]], "y": [1]}}}',
     json.dumps({"user_data": {"a": {"x": [[2.17] * 784], "y": [1]}}}),
     json.dumps({"user_data": {"a": {"x": [[0.217] * 784], "y": [1, 2]}}})],
)  # fmt: skip
def test_what_is_not_leafs_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "all_data_3.json").write_text(text)
    with pytest.raises(ValueError, match=r"all_data_3\.json") as caught:
        load_leaf(tmp_path)
    assert "217" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    for missing in ("empty", "none.json"):
        with pytest.raises(FileNotFoundError, match=missing):
            load_leaf(tmp_path / missing)
