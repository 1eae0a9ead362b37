"""Block patterns: by hand, against a plain loop, and a symbol for whatever does not fit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples import examples
from flwr_kld.common.errors import DomainError
from flwr_kld.table.block_patterns import BlockPatterns

FULL = {"uint8": 255, "digits": 16}


def square_around(ink: NDArray[Any]) -> tuple[slice, slice]:
    """The smallest square around an image's ink, of 4 pixels at least; all of a blank image."""
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if len(rows) == 0:
        return slice(None), slice(None)
    size = max(np.ptp(rows) + 1, np.ptp(columns) + 1, 4)
    starts = [(int(x[0] + x[-1]) + 1 - size) // 2 for x in (rows, columns)]
    top, left = (min(max(start, 0), len(ink) - size) for start in starts)
    return slice(top, top + size), slice(left, left + size)


def plain_loop(images: NDArray[Any], domain: BlockPatterns) -> list[int]:
    """Encode one image and one block at a time, by the definition."""
    full = FULL[domain.pixels]
    symbols = []
    for image in images.astype(np.float64):
        ink = np.where(image <= domain.faint * full, 0, image)
        if domain.crop:
            ink = ink[square_around(ink)]
        symbol = 0
        for i in range(16):
            (top, bottom), (left, right) = (
                (k * len(ink) // 4, (k + 1) * len(ink) // 4) for k in (i // 4, i % 4)
            )
            pixels = ink[top:bottom, left:right]
            if pixels.sum() <= domain.threshold * full * pixels.size:
                symbol |= 1 << i
        symbols.append(symbol)
    return symbols


def images_of(domain: BlockPatterns, n: int, seed: int) -> NDArray[Any]:
    """Random images in the convention of a domain, with plenty of background."""
    rng = np.random.default_rng(seed)
    block = np.ones((domain.side // 4, domain.side // 4), dtype=bool)
    blank = np.kron(rng.random((n, 4, 4)) < 0.5, block)
    shape = (n, domain.side, domain.side)
    ink: NDArray[Any] = rng.integers(0, FULL[domain.pixels], shape, endpoint=True)
    return np.where(blank, 0, ink).astype(np.uint8)


def test_by_hand_one_inked_pixel() -> None:
    image = np.zeros((1, 8, 8), dtype=np.uint8)
    image[0, 3, 6] = 1  # row 3 is in block row 1, column 6 in block column 3: block 7
    domain = BlockPatterns(pixels="digits", side=8)
    assert domain.encode(image).tolist() == [0xFFFF - (1 << 7)]
    assert domain.name_of(domain.encode(image)[0]) == "..../...#/..../...."


def test_by_hand_every_block_is_its_own_bit() -> None:
    images = np.zeros((16, 28, 28), dtype=np.uint8)
    for i in range(16):
        images[i, 7 * (i // 4) + i % 7, 7 * (i % 4) + 6 - i % 7] = 255
    assert BlockPatterns().encode(images).tolist() == [0xFFFF ^ 1 << i for i in range(16)]


def test_blank_paper_is_all_background() -> None:
    assert BlockPatterns().encode(np.zeros((1, 28, 28), np.uint8)).tolist() == [0xFFFF]


def test_threshold_is_inclusive_and_exact() -> None:
    """Mean ink of exactly 0.29 is background, one level more is not; in floats 0.29 * 400 < 116."""
    images = np.zeros((2, 20, 20), dtype=np.uint8)  # blocks of 25 pixels, full ink 25 * 16 = 400
    images[:, :5, :5] = 4
    images[:, 0, :4] = 8  # block 0: 21 * 4 + 4 * 8 = 116 = 0.29 * 400
    images[1, 0, 0] += 1
    domain = BlockPatterns(0.29, pixels="digits", side=20)
    assert domain.encode(images).tolist() == [0xFFFF, 0xFFFE]


@settings(max_examples=examples(100))
@given(
    st.sampled_from(["uint8", "digits"]),
    st.sampled_from([0.0, 0.1, 0.37, 0.5]),
    st.sampled_from([4, 8, 12, 28]),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_equals_the_plain_loop(
    pixels: Any, threshold: float, side: int, faint: float, crop: bool, seed: int
) -> None:
    domain = BlockPatterns(threshold, pixels, side, faint, crop)
    images = images_of(domain, 5, seed)
    symbols = domain.encode(images)
    assert symbols.dtype == np.int64
    assert symbols.tolist() == plain_loop(images, domain)


def test_chunks_join_without_a_seam() -> None:
    domain = BlockPatterns(pixels="digits", side=8)
    images = images_of(domain, 9000, seed=4)
    whole = domain.encode(images)
    assert len(set(whole.tolist())) > 1000
    pieces = [domain.encode(images[i : i + 7]) for i in range(0, 9000, 7)]
    assert np.array_equal(whole, np.concatenate(pieces))


def test_layout_in_memory_does_not_matter() -> None:
    domain = BlockPatterns()
    images = images_of(domain, 10, seed=5)
    assert np.array_equal(domain.encode(np.asfortranarray(images)), domain.encode(images))
    assert np.array_equal(domain.encode(images[::-2]), domain.encode(images)[::-2])


@given(st.integers(0, 2**16 - 1))
def test_pattern_pictures_the_symbol(symbol: int) -> None:
    domain = BlockPatterns(side=4)
    pattern = domain.pattern(symbol)
    assert pattern.shape == (4, 4)
    assert pattern.dtype == np.bool_
    image = np.where(pattern, 0, 255).astype(np.uint8)
    assert domain.encode(image[np.newaxis]).tolist() == [symbol]


def test_every_symbol_has_its_own_name() -> None:
    domain = BlockPatterns()
    assert domain.size == 2**16 + 1
    symbols = range(0, 2**16, 17)
    assert len({domain.name_of(symbol) for symbol in symbols}) == len(symbols)
    assert domain.name_of(2**16) == "missing"
    with pytest.raises(DomainError, match="picture"):
        domain.pattern(2**16)
    with pytest.raises(DomainError, match="65536"):
        domain.name_of(2**16 + 1)


@pytest.mark.parametrize("empty", [[], np.empty((0, 28, 28), np.uint8), np.empty((0, 784))])
def test_no_records_give_no_symbols(empty: object) -> None:
    assert BlockPatterns().encode(empty).shape == (0,)


MISSING = 2**16


def test_faint_ink_beside_strokes_is_none() -> None:
    images = np.zeros((3, 28, 28), dtype=np.uint8)
    images[:, 3, 3] = 200
    images[1:, 20, 20] = [5, 6]  # the limit 0.02 * 255 = 5.1
    assert BlockPatterns(faint=0.02).encode(images).tolist() == [0xFFFE, 0xFFFE, 0xFBFE]


def test_a_small_character_is_cut_out_wherever_it_stands() -> None:
    """A bend of 8x8 pixels on a large page, with halos; its left column and bottom row have ink."""
    images = np.zeros((3, 28, 28), dtype=np.uint8)
    for image, (top, left) in zip(images, [(0, 0), (9, 13), (20, 20)], strict=True):
        image[top : top + 8, left : left + 2] = 255
        image[top + 6 : top + 8, left : left + 8] = 255
    images[0, 27, 27] = images[1, 2, 2] = images[2, 0, 14] = 5
    cropped = BlockPatterns(faint=0.02, crop=True)
    assert {cropped.name_of(s) for s in cropped.encode(images)} == {"#.../#.../#.../####"}
    assert len(set(BlockPatterns().encode(images).tolist())) == 3


def test_a_thin_stroke_stays_thin() -> None:
    """The square keeps the shape: a 1 has ink in its middle columns only."""
    images = np.zeros((1, 28, 28), dtype=np.uint8)
    images[0, 4:24, 13:15] = 255
    cropped = BlockPatterns(crop=True)
    assert cropped.name_of(cropped.encode(images)[0]) == ".##./.##./.##./.##."


def spoilt(value: Any, dtype: Any = np.float64) -> NDArray[Any]:
    images = np.zeros((3, 28, 28), dtype=dtype)
    images[:, 2, 2] = 1
    images[1, 13, 19] = value
    return images


@pytest.mark.parametrize("crop", [False, True])
@pytest.mark.parametrize(
    ("pixels", "images"),
    [
        ("digits", spoilt(float("nan"))),
        ("digits", spoilt(-0.000321)),
        ("digits", spoilt(float("inf"))),
        ("digits", spoilt(213, np.uint8)),
        ("digits", spoilt(213.0)),
        ("digits", spoilt(17, np.int64)),
        ("uint8", spoilt(0.321)),
        ("uint8", spoilt(256.0)),
        ("uint8", spoilt(-1, np.int64)),
        ("uint8", spoilt(float("nan"), np.float16)),
        ("uint8", spoilt(None, object)),
        ("uint8", spoilt("ink", object)),
        ("uint8", spoilt(1 << 90, object)),
        ("uint8", np.ma.masked_equal(spoilt(7, np.uint8), 7)),
        ("uint8", list(np.ma.masked_equal(spoilt(7, np.uint8), 7))),
        ("uint8", [spoilt(0)[0], np.zeros((8, 8)), spoilt(0)[2]]),
        ("uint8", [spoilt(0)[0], spoilt(0)[1].reshape(784), spoilt(0)[2]]),
        ("uint8", [spoilt(0)[0], np.zeros((28, 28, 1)), spoilt(0)[2]]),
        ("uint8", [spoilt(0)[0].tolist(), [[213], [1, 2]], spoilt(0)[2].tolist()]),
        ("uint8", [spoilt(0)[0].tolist(), [["213"] * 28] * 28, spoilt(0)[2].tolist()]),
        ("uint8", [spoilt(0, np.uint8)[0], spoilt(0)[1] + 1j, spoilt(0)[2]]),
        ("uint8", [spoilt(0, np.uint8)[0], spoilt(213.5)[1], spoilt(0, np.int16)[2]]),
        ("uint8", [spoilt(0)[0], None, spoilt(0)[2]]),
        ("uint8", [spoilt(0)[0], "213", spoilt(0)[2]]),
    ],
)
def test_what_does_not_fit_is_missing_and_changes_no_other_record(
    pixels: Any, images: Any, crop: bool
) -> None:
    domain = BlockPatterns(pixels=pixels, crop=crop)
    good = domain.encode(spoilt(0))[0]
    assert good < MISSING
    assert domain.encode(images).tolist() == [good, MISSING, good]


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((3, 784), np.uint8),
        np.zeros((3, 8, 8), np.uint8),
        np.zeros((3, 28, 28, 1), np.uint8),
        np.array(["213", "7", ""]),
        np.zeros((3, 28, 28), np.complex128),
        np.zeros((3, 28, 28), "datetime64[s]"),
    ],
)
def test_arrays_of_another_form_hold_missing_images(images: Any) -> None:
    assert BlockPatterns().encode(images).tolist() == [MISSING] * 3


def test_any_type_of_number_is_read_alike() -> None:
    images = images_of(BlockPatterns(), 20, seed=8)
    expected = BlockPatterns().encode(images).tolist()
    for dtype in (np.int64, np.uint16, np.float32, np.float64, object):
        assert BlockPatterns().encode(images.astype(dtype)).tolist() == expected
    assert BlockPatterns().encode(images.tolist()).tolist() == expected


@pytest.mark.parametrize("records", [None, 213, 2.13, "213", b"213", {"x": 213}, np.uint8(213)])
def test_what_is_no_collection_is_refused_and_not_shown(records: Any) -> None:
    with pytest.raises(DomainError, match="array") as caught:
        BlockPatterns().encode(records)
    assert "213" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "0"}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"faint": 1.0}, "faint"),
        ({"faint": -0.1}, "faint"),
        ({"faint": float("nan")}, "faint"),
        ({"crop": 1}, "crop"),
        ({"pixels": "float"}, "pixels"),
        ({"side": 30}, "side"),
        ({"side": 0}, "side"),
        ({"side": 28.0}, "side"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        BlockPatterns(**parameters)
