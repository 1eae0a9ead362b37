"""Loading .npz files and LEAF folders, and what is said when they are wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flwr_kld.clients.handwriting import load_leaf, load_npz

IMAGES = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
ARRAYS: dict[str, Any] = {"images": IMAGES, "labels": np.array([4, 2]), "writer": np.array([9, 8])}


def test_npz_round_trip(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "w.npz", **ARRAYS, other=np.zeros(3))
    data = load_npz(tmp_path / "w.npz")
    assert np.array_equal(data.images, IMAGES)
    assert (data.labels.tolist(), data.writer.tolist(), data.pixels) == ([4, 2], [9, 8], "uint8")
    np.savez(tmp_path / "d.npz", **{**ARRAYS, "images": IMAGES // 8})
    assert load_npz(str(tmp_path / "d.npz"), pixels="digits").pixels == "digits"


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
    with pytest.raises(FileNotFoundError, match=r"no file named 'none\.npz'"):
        load_npz(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("217")
    with pytest.raises(ValueError, match=r"text\.npz is not an \.npz file"):
        load_npz(tmp_path / "text.npz")
    np.savez(tmp_path / "cut.npz", **ARRAYS)
    damaged = bytearray((tmp_path / "cut.npz").read_bytes())
    damaged[200] ^= 0xFF
    (tmp_path / "cut.npz").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"cut\.npz is damaged"):
        load_npz(tmp_path / "cut.npz")


PAPER = [1.0] * 784
DOT = [1.0] * 28 + [0.0] + [1.0] * 27 + [0.5] + [1.0] * 727


def leaf(**user_data: tuple[Any, Any]) -> dict[str, Any]:
    return {
        "users": list(user_data),
        "num_samples": [1 for _ in user_data],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in user_data.items()},
    }


def write(folder: Path, name: str, content: object) -> None:
    (folder / f"all_data_{name}.json").write_text(json.dumps(content))


def test_leaf_ink_becomes_bright_and_writers_are_numbered_by_name(tmp_path: Path) -> None:
    write(tmp_path, "0", leaf(f09=([PAPER, DOT], [3, 7]), f01=([DOT], [10])))
    write(tmp_path, "1", leaf(f05=([PAPER], [0]), f09=([PAPER], [9]), f07=([], [])))
    (tmp_path / "other.json").write_text("not read")
    data = load_leaf(tmp_path)
    assert data.labels.tolist() == [3, 7, 0, 9]
    assert data.writer.tolist() == [3, 3, 1, 3]  # f01 0, f05 1, f07 2, f09 3
    assert data.images.dtype == np.uint8
    assert data.images[0].max() == 0
    assert [(int(r), int(c)) for r, c in np.argwhere(data.images[1])] == [(1, 0), (2, 0)]
    assert data.images[1, 1:3, 0].tolist() == [255, 128]
    everything = load_leaf(tmp_path, labels=range(62))
    assert everything.labels.tolist() == [3, 7, 10, 0, 9]
    assert load_leaf(tmp_path, labels=[]).images.shape == (0, 28, 28)


def test_leaf_folders_that_are_split_into_train_and_test(tmp_path: Path) -> None:
    """With --t sample the writers are the same in both; with --t user they differ."""
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
    write(tmp_path / "train", "0_niid_0_keep_0_train_9", leaf(f2=([DOT], [1]), f1=([PAPER], [2])))
    write(tmp_path / "test", "0_niid_0_keep_0_test_9", leaf(f2=([PAPER], [3]), f3=([DOT], [40])))
    data = load_leaf(tmp_path, labels=range(62))
    assert data.labels.tolist() == [1, 2, 3, 40]
    assert data.writer.tolist() == [1, 0, 1, 2]
    assert load_leaf(tmp_path / "test").labels.tolist() == [3]
    write(tmp_path / "test", "1_test_9", leaf(f4=([PAPER[:-1]], [3])))
    with pytest.raises(ValueError, match=r"^test.all_data_1_test_9\.json is not a LEAF"):
        load_leaf(tmp_path)


def test_the_default_patterns_of_femnist_see_through_its_halos(tmp_path: Path) -> None:
    """A stroke in the middle of a large page, and ink of 1 to 5 of 255 in every block."""
    page = np.ones((28, 28)) - np.resize(np.arange(6), (28, 28)) / 255
    page[8:20, 8:20] -= np.kron(np.eye(4), np.ones((3, 3))) * 0.7
    write(tmp_path, "0", leaf(f1=([page.ravel().tolist()], [20])))
    data = load_leaf(tmp_path, labels=[20])
    assert (data.patterns().faint, data.patterns().crop) == (0.02, True)
    plain = data.patterns(faint=0, crop=False)
    assert plain.name_of(plain.encode(data.images)[0]) == "/".join(["####"] * 4)
    fit = data.patterns()
    assert fit.name_of(fit.encode(data.images)[0]) == "#.../.#../..#./...#"


def test_every_byte_survives_leaf(tmp_path: Path) -> None:
    grey = [(i % 256) / 255 for i in range(784)]
    write(tmp_path, "0", leaf(a=([grey], [1])))
    ink = load_leaf(tmp_path).images.ravel()
    assert np.array_equal(ink, 255 - np.arange(784) % 256)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"user_data": {}}, "needs users"),
        ({"users": ["S217"], "user_data": {}}, "needs users"),
        ({"users": ["S217"], "user_data": {"S217": {"x": [PAPER]}}}, "needs users"),
        (["S217"], "needs users"),
        (leaf(S217=([PAPER[:-1]], [1])), "784 numbers"),
        (leaf(S217=([PAPER, PAPER[:-1]], [1, 2])), "784 numbers"),
        (leaf(S217=([["S217"] * 784], [1])), "784 numbers"),
        (leaf(S217=(217, [1])), "784 numbers"),
        (leaf(S217=(None, [1])), "784 numbers"),
        (leaf(S217=([[217.0] * 784], [1])), "in 0 to 1"),
        (leaf(S217=([[float("nan")] * 784], [1])), "in 0 to 1"),
        (leaf(S217=([PAPER], [217])), "0 to 61"),
        (leaf(S217=([PAPER], [-1])), "0 to 61"),
        (leaf(S217=([PAPER], [1.5])), "one for each image"),
        (leaf(S217=([PAPER], [1, 2])), "one for each image"),
        (leaf(S217=([PAPER], ["S217"])), "one for each image"),
        (leaf(S217=([], [1])), "one for each image"),
    ],
)
def test_a_malformed_leaf_file_is_refused_by_name(
    tmp_path: Path, content: object, message: str
) -> None:
    write(tmp_path, "0", leaf(good=([PAPER], [1])))
    write(tmp_path, "1", content)
    with pytest.raises(ValueError, match=rf"^all_data_1\.json is not.*{message}") as caught:
        load_leaf(tmp_path)
    assert "217" not in str(caught.value)


def test_text_that_is_not_json_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="all_data_"):
        load_leaf(tmp_path)
    (tmp_path / "all_data_0.json").write_text('{"users": ["S217"')
    with pytest.raises(ValueError, match=r"all_data_0\.json.*not valid JSON") as caught:
        load_leaf(tmp_path)
    assert "217" not in str(caught.value)
