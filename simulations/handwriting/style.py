"""A writer's hand: where, how thick and how slanted a writer puts the ink.

Lengths are fractions of the image side, so one style means the same on 8x8 and 28x28 images. It
moves ink by real amounts while pixels are whole: each image rounds up or down at random such that
the mean is exact (dithering). No pixel value is invented, and paper without ink stays so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import finite, set_fields


@dataclass(frozen=True)
class WriterStyle:
    """How one writer writes."""

    right: float  # Shift of the ink, in sides
    down: float
    # Growth of every stroke in width and height, in sides; negative for a finer pen
    thickness: float
    slant: float  # Shear: pixels to the right for each pixel up
    digit_mix: NDArray[np.float64]  # Probability of each digit the source has, ascending

    def __post_init__(self) -> None:
        set_fields(
            self,
            right=finite("right", self.right),
            down=finite("down", self.down),
            thickness=finite("thickness", self.thickness),
            slant=finite("slant", self.slant),
        )


@dataclass(frozen=True)
class StylePopulation:
    """The distribution that writers' styles are drawn from; another population is a drift."""

    shift_spread: float = 0.02  # Standard deviation of the shift to the right and down, in sides
    thickness: float = 0.0  # Mean and standard deviation of the growth of strokes, in sides
    thickness_spread: float = 0.015
    slant: float = 0.0  # Mean and standard deviation of the shear
    slant_spread: float = 0.15
    # Of the Dirichlet law around the source's digit fractions; small for writers who differ much
    digit_concentration: float = 50.0

    def __post_init__(self) -> None:
        concentration = finite("digit_concentration", self.digit_concentration, above=0)
        set_fields(
            self,
            shift_spread=finite("shift_spread", self.shift_spread, least=0),
            thickness=finite("thickness", self.thickness),
            thickness_spread=finite("thickness_spread", self.thickness_spread, least=0),
            slant=finite("slant", self.slant),
            slant_spread=finite("slant_spread", self.slant_spread, least=0),
            digit_concentration=concentration,
        )

    def draw(self, rng: np.random.Generator, digit_shares: NDArray[np.float64]) -> WriterStyle:
        """Draw one writer."""
        right, down, thickness, slant = rng.standard_normal(4)
        return WriterStyle(
            right=self.shift_spread * right,
            down=self.shift_spread * down,
            thickness=self.thickness + self.thickness_spread * thickness,
            slant=self.slant + self.slant_spread * slant,
            digit_mix=rng.dirichlet(self.digit_concentration * digit_shares),
        )


OTHER_HAND = StylePopulation(slant=0.35, thickness=0.04)
"""Slanted and thick: a drift of hands."""


def restyle(
    images: NDArray[np.uint8], style: WriterStyle, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Redraw images in a writer's style."""
    side = images.shape[1]
    growth = np.floor(style.thickness * side + rng.random(len(images))).astype(np.int64)
    return _place(_thicken(images, np.clip(growth, -side, side)), style, rng)


def _thicken(images: NDArray[np.uint8], growth: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Grow strokes of image i by ``growth[i]`` pixels to the right and down, or shrink them."""
    result = images.copy()
    for step in range(int(np.abs(growth).max(initial=0))):
        for rows, extreme in ((growth > step, np.maximum), (growth < -step, np.minimum)):
            x = result[rows]
            x[:, :, 1:] = extreme(x[:, :, 1:], x[:, :, :-1])
            x[:, 1:] = extreme(x[:, 1:], x[:, :-1])
            result[rows] = x
    return result


def _place(
    images: NDArray[np.uint8], style: WriterStyle, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Shift and slant; ink that leaves the image is lost, and background comes in."""
    n, side = images.shape[:2]
    up = (side - 1) / 2 - np.arange(side)
    right = style.right * side + style.slant * up + rng.random((n, 1))  # one dither an image
    down = style.down * side + rng.random(n)
    from_column = np.arange(side) - np.floor(right).astype(np.int64)[:, :, np.newaxis]
    from_row = np.arange(side) - np.floor(down).astype(np.int64)[:, np.newaxis]
    from_column[(from_column < 0) | (from_column >= side)] = side  # background, padded on here
    from_row[(from_row < 0) | (from_row >= side)] = side
    images = np.pad(images, ((0, 0), (0, 0), (0, 1)))
    images = np.take_along_axis(images, from_column, axis=2)
    images = np.pad(images, ((0, 0), (0, 1), (0, 0)))
    return np.take_along_axis(images, from_row[:, :, np.newaxis], axis=1)
