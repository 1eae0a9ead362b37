"""Virtual writers: reproducible, in the source's form, and different where their style says so."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.style import StylePopulation, WriterStyle, restyle

STILL: dict[str, float] = {"shift_spread": 0, "thickness_spread": 0, "slant_spread": 0}


def source(side: int = 8, n: int = 60) -> Handwriting:
    """Blobs of ink in the middle; labels 0, 1, 2 and 7."""
    rng = np.random.default_rng(0)
    images = np.zeros((n, side, side), dtype=np.uint8)
    middle = slice(side // 4, side - side // 4)
    images[:, middle, middle] = rng.integers(0, 17, images[:, middle, middle].shape)
    labels = np.array([0, 1, 2, 7, 7])[np.arange(n) % 5]
    return Handwriting(images, labels, np.zeros(n, dtype=int), pixels="digits")


def style(**changes: Any) -> WriterStyle:
    plain: dict[str, Any] = {"right": 0, "down": 0, "thickness": 0, "slant": 0}
    return WriterStyle(**{**plain, **changes}, digit_mix=np.ones(1))


def dot(side: int = 8, row: int = 3, column: int = 3) -> NDArray[np.uint8]:
    image = np.zeros((1, side, side), dtype=np.uint8)
    image[0, row, column] = 9
    return image


def inked(image: NDArray[np.uint8]) -> list[tuple[int, int]]:
    return [(int(r), int(c)) for r, c in np.argwhere(image)]


def test_a_writer_depends_on_seed_and_index_alone() -> None:
    one, other = WriterResampler(source(), 5), WriterResampler(source(), 5)
    forward = [one.writer(i, 20) for i in range(6)]
    backward = [other.writer(i, 20) for i in reversed(range(6))][::-1]
    for a, b in zip(forward, backward, strict=True):
        assert np.array_equal(a.images, b.images)
        assert np.array_equal(a.labels, b.labels)
    assert len({a.images.tobytes() for a in forward}) == 6
    assert not np.array_equal(WriterResampler(source(), 6).writer(0, 20).images, forward[0].images)
    assert one.style(3).slant == other.style(3).slant


@pytest.mark.parametrize("side", [8, 28])
def test_a_writer_has_the_form_of_the_source(side: int) -> None:
    data = WriterResampler(source(side), 1).writer(12, 30)
    assert data.images.shape == (30, side, side)
    assert data.images.dtype == np.uint8
    assert data.pixels == "digits"
    assert data.images.max() <= 16
    assert data.writers.tolist() == [12]
    assert set(data.labels.tolist()) <= {0, 1, 2, 7}
    assert len(WriterResampler(source(side), 1).writer(12, 0)) == 0


def test_without_a_style_a_writer_copies_the_source_with_its_labels() -> None:
    original = source()
    known = {(int(y), x.tobytes()) for x, y in zip(original.images, original.labels, strict=True)}
    data = WriterResampler(original, 1, StylePopulation(**STILL)).writer(0, 2000)
    seen = {(int(y), x.tobytes()) for x, y in zip(data.images, data.labels, strict=True)}
    assert seen == known  # 2000 draws miss one of 60 images with probability below 1e-9


@given(st.integers(0, 2**32), st.sampled_from([8, 28]))
def test_no_pixel_value_is_invented(seed: int, side: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(100, 200, (4, side, side)).astype(np.uint8)
    right, down, thickness, slant = rng.normal(0, [0.2, 0.2, 0.1, 0.5])
    out = restyle(images, style(right=right, down=down, thickness=thickness, slant=slant), rng)
    assert out.shape == images.shape
    assert out.dtype == np.uint8
    for before, after in zip(images, out, strict=True):
        assert set(np.unique(after)) <= set(np.unique(before)) | {0}


def test_shift_by_whole_pixels_is_exact() -> None:
    rng = np.random.default_rng(0)
    assert inked(restyle(dot(), style(right=2 / 8, down=-1 / 8), rng)[0]) == [(2, 5)]
    assert inked(restyle(dot(), style(right=-3 / 8), rng)[0]) == [(3, 0)]
    assert inked(restyle(dot(), style(right=-4 / 8), rng)[0]) == []
    assert inked(restyle(dot(), style(down=5 / 8), rng)[0]) == []


@pytest.mark.rate(1e-6)
def test_shift_by_a_part_of_a_pixel_is_right_on_average() -> None:
    """20,000 images: the mean column is within 6 standard errors (false alarm 2e-9)."""
    images = np.repeat(dot(), 20_000, axis=0)
    out = restyle(images, style(right=0.3 / 8), np.random.default_rng(1))
    assert (out.sum(axis=(1, 2)) == 9).all()
    columns = out.sum(axis=1).argmax(axis=1)
    assert set(columns.tolist()) == {3, 4}
    assert abs(columns.mean() - 3.3) < 6 * np.sqrt(0.3 * 0.7 / 20_000)


def test_slant_leans_to_the_right_at_the_top() -> None:
    upright = np.zeros((1, 9, 9), dtype=np.uint8)
    upright[0, :, 4] = 9
    out = restyle(upright, style(slant=1), np.random.default_rng(0))
    assert inked(out[0]) == [(row, 8 - row) for row in range(9)]


def test_thickness_grows_and_shrinks_strokes_by_whole_pixels() -> None:
    rng = np.random.default_rng(0)
    thick = restyle(dot(), style(thickness=1 / 8), rng)
    assert inked(thick[0]) == [(3, 3), (3, 4), (4, 3), (4, 4)]
    assert len(inked(restyle(dot(), style(thickness=2 / 8), rng)[0])) == 9
    assert inked(restyle(thick, style(thickness=-1 / 8), rng)[0]) == [(4, 4)]
    assert inked(restyle(dot(), style(thickness=-1 / 8), rng)[0]) == []


@pytest.mark.rate(1e-6)
def test_digit_mix_can_be_overridden_without_touching_the_style() -> None:
    resampler = WriterResampler(source(), 1)
    assert resampler.digits.tolist() == [0, 1, 2, 7]
    data = resampler.writer(3, 4000, digit_mix=[0.25, 0, 0, 0.75])
    counts = np.bincount(data.labels, minlength=8)
    assert counts[[0, 7]].sum() == 4000
    assert abs(counts[7] - 3000) < 6 * np.sqrt(4000 * 0.25 * 0.75)


def test_a_writers_own_mix_is_near_the_source_and_differs_between_writers() -> None:
    resampler = WriterResampler(source(), 1, StylePopulation(digit_concentration=1000))
    mixes = np.stack([resampler.style(i).digit_mix for i in range(200)])
    assert np.abs(mixes.mean(axis=0) - [0.2, 0.2, 0.2, 0.4]).max() < 0.01
    assert 0.005 < mixes[:, 0].std() < 0.02  # Dirichlet: sqrt(0.2 * 0.8 / 1001) = 0.0126
    labels = resampler.writer(0, 20_000).labels
    assert abs((labels == 7).mean() - mixes[0, 3]) < 6 * np.sqrt(0.25 / 20_000)


def test_another_population_moves_the_writers() -> None:
    usual = WriterResampler(source(), 1)
    drifted = WriterResampler(source(), 1, StylePopulation(slant=0.4, thickness=0.05))
    for i in range(5):
        assert drifted.style(i).slant == pytest.approx(usual.style(i).slant + 0.4)
        assert drifted.style(i).thickness == pytest.approx(usual.style(i).thickness + 0.05)
    ink = [
        np.mean([np.count_nonzero(r.writer(i, 50).images) for i in range(40)])
        for r in (usual, drifted)
    ]
    assert ink[1] > 1.1 * ink[0]


@pytest.mark.parametrize("mix", [[1, 0, 0], [0.5, 0.5, 0.5, -0.5], [0, 0, 0, 0], [np.nan, 0, 0, 1]])
def test_a_bad_digit_mix_is_refused(mix: list[float]) -> None:
    with pytest.raises(ValueError, match="digit_mix"):
        WriterResampler(source(), 1).writer(0, 5, digit_mix=mix)


def test_bad_arguments_are_refused() -> None:
    resampler = WriterResampler(source(), 1)
    with pytest.raises(ValueError, match="index"):
        resampler.writer(-1, 5)
    with pytest.raises(ValueError, match="records"):
        resampler.writer(1, -5)
    with pytest.raises(ValueError, match="seed"):
        WriterResampler(source(), -1)
    with pytest.raises(ValueError, match="image"):
        WriterResampler(source().with_labels([]), 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"shift_spread": -0.1}, "least"),
        ({"slant_spread": -0.1}, "least"),
        ({"thickness_spread": -0.1}, "least"),
        ({"digit_concentration": 0}, "above 0"),
        ({"slant": float("nan")}, "a number"),
        ({"thickness": float("inf")}, "a number"),
    ],
)
def test_a_bad_population_is_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StylePopulation(**parameters)
