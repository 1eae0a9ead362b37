"""Block patterns: by hand, against a plain loop, and refusals that show no value."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from flwr_kld.domain import BlockPatterns
from flwr_kld.errors import DomainError

FULL = {"uint8": 255, "digits": 16, "unit": 1}


def plain_loop(images: NDArray[Any], domain: BlockPatterns) -> list[int]:
    """Encode one image and one block at a time, by the definition."""
    block, full = domain.side // 4, FULL[domain.pixels]
    symbols = []
    for image in images.astype(np.float64):
        symbol = 0
        for i in range(16):
            top, left = i // 4 * block, i % 4 * block
            pixels = image[top : top + block, left : left + block]
            ink = full - pixels if domain.ink == "dark" else pixels
            if ink.sum() <= domain.threshold * full * block * block:
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
    if domain.pixels == "unit":
        ink = rng.random(shape)
    ink = np.where(blank, 0, ink)
    if domain.ink == "dark":
        ink = FULL[domain.pixels] - ink
    return ink if domain.pixels == "unit" else ink.astype(np.uint8)


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


def test_blank_paper_is_all_background_in_both_ink_conventions() -> None:
    assert BlockPatterns().encode(np.zeros((1, 28, 28), np.uint8)).tolist() == [0xFFFF]
    leaf = BlockPatterns(ink="dark", pixels="unit")
    assert leaf.encode(np.ones((1, 28, 28))).tolist() == [0xFFFF]
    assert leaf.encode(np.zeros((1, 28, 28))).tolist() == [0]


def test_the_faintest_ink_counts_at_threshold_zero() -> None:
    paper = np.ones((1, 28, 28))
    paper[0, 0, 0] = np.nextafter(1, 0)
    assert BlockPatterns(ink="dark", pixels="unit").encode(paper).tolist() == [0xFFFE]


def test_threshold_is_inclusive_and_exact() -> None:
    """Mean ink of exactly 0.29 is background, one level more is not; in floats 0.29 * 400 < 116."""
    images = np.zeros((2, 20, 20), dtype=np.uint8)  # blocks of 25 pixels, full ink 25 * 16 = 400
    images[:, :5, :5] = 4
    images[:, 0, :4] = 8  # block 0: 21 * 4 + 4 * 8 = 116 = 0.29 * 400
    images[1, 0, 0] += 1
    domain = BlockPatterns(0.29, pixels="digits", side=20)
    assert domain.encode(images).tolist() == [0xFFFF, 0xFFFE]


def test_threshold_one_makes_everything_background() -> None:
    assert BlockPatterns(1).encode(np.full((1, 28, 28), 255, np.uint8)).tolist() == [0xFFFF]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["uint8", "digits", "unit"]),
    st.sampled_from(["bright", "dark"]),
    st.sampled_from([0.0, 0.1, 0.37, 0.5]),
    st.sampled_from([4, 8, 12, 28]),
    st.integers(0, 2**32),
)
def test_equals_the_plain_loop(
    pixels: Any, ink: Any, threshold: float, side: int, seed: int
) -> None:
    domain = BlockPatterns(threshold, ink, pixels, side)
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


def test_digits_may_be_float_as_scikit_learn_gives_them() -> None:
    domain = BlockPatterns(0.2, "dark", "digits", 8)
    images = images_of(domain, 50, seed=6)
    assert np.array_equal(domain.encode(images.astype(float)), domain.encode(images))


def test_bright_bytes_and_dark_units_of_the_same_ink_agree() -> None:
    images = images_of(BlockPatterns(), 50, seed=7)
    leaf = BlockPatterns(ink="dark", pixels="unit")
    assert np.array_equal(leaf.encode(1 - images / 255), BlockPatterns().encode(images))


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
    assert domain.size == 2**16
    symbols = range(0, 2**16, 17)
    assert len({domain.name_of(symbol) for symbol in symbols}) == len(symbols)
    with pytest.raises(DomainError, match="from 0 to 65535"):
        domain.pattern(2**16)


@pytest.mark.parametrize("empty", [[], np.empty((0, 28, 28), np.uint8), np.empty((0, 784))])
def test_no_records_give_no_symbols(empty: object) -> None:
    assert BlockPatterns().encode(empty).shape == (0,)


def spoilt(value: float, dtype: Any = np.float64) -> NDArray[Any]:
    images = np.zeros((123, 28, 28), dtype=dtype)
    images[77, 13, 19] = value
    return images


@pytest.mark.parametrize(
    ("pixels", "images", "message"),
    [
        ("unit", spoilt(float("nan")), "NaN"),
        ("unit", spoilt(1.000321), "outside 0 to 1"),
        ("unit", spoilt(-0.000321), "outside 0 to 1"),
        ("unit", spoilt(float("inf")), "outside 0 to 1"),
        ("digits", spoilt(213, np.uint8), "outside 0 to 16"),
        ("digits", spoilt(213.0), "outside 0 to 16"),
        ("unit", spoilt(213, np.uint8), "dtype float"),
        ("uint8", spoilt(0.321), "dtype uint8"),
        ("uint8", spoilt(213, np.int64), "dtype uint8"),
        ("uint8", spoilt(1, np.bool_), "dtype uint8"),
        ("uint8", spoilt(213, object), "dtype uint8"),
        ("digits", spoilt(3, np.int64), "dtype uint8 or float"),
        ("uint8", spoilt(213, np.uint8).reshape(123, 784), r"shape \[records, 28, 28\]"),
        ("uint8", spoilt(213, np.uint8)[0], r"shape \[records, 28, 28\]"),
        ("uint8", spoilt(213, np.uint8)[:, :8, :8], r"shape \[records, 28, 28\]"),
        ("uint8", spoilt(213, np.uint8)[..., np.newaxis], r"shape \[records, 28, 28\]"),
        ("uint8", np.uint8(213), r"shape \[records, 28, 28\]"),
        ("uint8", [[213], [1, 2]], "do not form an array"),
    ],
)
def test_refusal_says_what_is_wrong_and_shows_no_value(
    pixels: Any, images: object, message: str
) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        BlockPatterns(pixels=pixels).encode(images)
    for value in ("321", "213", "nan", "inf", "123", "77", "784"):
        assert value not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "0"}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"ink": "blue"}, "ink"),
        ({"pixels": "float"}, "pixels"),
        ({"side": 30}, "side"),
        ({"side": 0}, "side"),
        ({"side": 28.0}, "side"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        BlockPatterns(**parameters)
