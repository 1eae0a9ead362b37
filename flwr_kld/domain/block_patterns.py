"""4x4 block patterns of square grey images: handwriting as one of 2^16 symbols.

An image is cut into sixteen equal blocks (28x28 into 7x7, 8x8 into 2x2). Bit i, counted in reading
order from the top left, is set where block i is background: its mean ink is at most the threshold.
The default threshold 0 says background only where a block has no ink at all.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, SupportsIndex, get_args

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Domain, Spec, Symbols, as_array
from flwr_kld.errors import DomainError

Pixels = Literal["uint8", "digits", "unit"]
Ink = Literal["bright", "dark"]

FULL_SCALE: dict[Pixels, int] = {"uint8": 255, "digits": 16, "unit": 1}
"""Largest pixel value of each image convention; the smallest is 0."""

_GRID = 4
_CHUNK = 4096  # images encoded at a time: bounds memory and keeps the work in the cache
_EXPECTED: dict[Pixels, str] = {
    "uint8": "dtype uint8 (0 to 255)",
    "digits": "dtype uint8 or float (0 to 16)",
    "unit": "dtype float (0 to 1)",
}


@dataclass(frozen=True, eq=False)
class BlockPatterns(Domain):
    """Which of an image's sixteen blocks are background.

    Parameters
    ----------
    threshold : float, default 0
        Largest mean ink of a background block, as a fraction of full ink, in [0, 1].
    ink : "bright" or "dark", default "bright"
        Bright: ink is full scale on a background of 0 (MNIST). Dark: ink is 0 on a background of
        full scale (LEAF's FEMNIST).
    pixels : "uint8", "digits" or "unit", default "uint8"
        "uint8": bytes 0 to 255. "digits": 0 to 16, as scikit-learn's digits. "unit": floats 0 to 1.
    side : int, default 28
        Height and width in pixels, a multiple of 4.

    Raises
    ------
    DomainError
        If a parameter is outside what is listed here.

    Examples
    --------
    >>> blank = np.zeros((1, 28, 28), dtype=np.uint8)
    >>> BlockPatterns().encode(blank)
    array([65535])
    """

    threshold: float = 0.0
    ink: Ink = "bright"
    pixels: Pixels = "uint8"
    side: int = 28
    kind: ClassVar[str] = "block_patterns"

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float):
            raise DomainError("threshold must be a number in [0, 1]")
        if not 0 <= self.threshold <= 1:
            raise DomainError("threshold is a fraction of full ink and must be in [0, 1]")
        if self.ink not in get_args(Ink):
            raise DomainError("ink must be 'bright' or 'dark'")
        if self.pixels not in get_args(Pixels):
            raise DomainError("pixels must be 'uint8', 'digits' or 'unit'")
        if type(self.side) is not int or self.side <= 0 or self.side % _GRID:
            raise DomainError("side must be a positive multiple of 4")
        object.__setattr__(self, "threshold", float(self.threshold) + 0.0)

    @property
    def size(self) -> int:
        """2^16 patterns."""
        return 1 << _GRID * _GRID

    def encode(self, records: Any) -> Symbols:
        """Map images to patterns.

        Byte images are summed in integers, so the comparison with the threshold is exact.

        Parameters
        ----------
        records : array [n, side, side]
            Images in the declared convention.

        Returns
        -------
        Symbols
            int64 [n].

        Raises
        ------
        DomainError
            If shape or dtype is not as declared, or a pixel is NaN or outside the declared range.
        """
        images = as_array(records)
        if images.ndim > 0 and len(images) == 0:
            return np.empty(0, dtype=np.int64)
        self._check_form(images)
        symbols = np.empty(len(images), dtype=np.int64)
        for start in range(0, len(images), _CHUNK):
            chunk = images[start : start + _CHUNK]
            symbols[start : start + _CHUNK] = self._encode_chunk(chunk)
        return symbols

    def pattern(self, symbol: SupportsIndex) -> NDArray[np.bool_]:
        """Return the picture of a symbol.

        Returns
        -------
        NDArray[np.bool_]
            [4, 4], True where the block is background.

        Raises
        ------
        DomainError
            If ``symbol`` is not in 0 .. size-1.
        """
        bits = self._index(symbol) >> np.arange(_GRID * _GRID) & 1
        return bits.astype(np.bool_).reshape(_GRID, _GRID)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the four rows of the pattern, ``.`` background and ``#`` ink."""
        return "/".join("".join(".#"[not b] for b in row) for row in self.pattern(symbol))

    def spec(self) -> Spec:
        """Return the threshold and the image convention."""
        return {
            **self._header(),
            "threshold": self.threshold,
            "ink": self.ink,
            "pixels": self.pixels,
            "side": self.side,
        }

    def _check_form(self, images: NDArray[Any]) -> None:
        if images.shape[1:] != (self.side, self.side) or images.ndim != 3:
            raise DomainError(
                f"images must have shape [records, {self.side}, {self.side}]; "
                "reshape them or declare another side"
            )
        is_byte, is_float = images.dtype == np.uint8, images.dtype.kind == "f"
        allowed = {"uint8": is_byte, "digits": is_byte or is_float, "unit": is_float}
        if not allowed[self.pixels]:
            raise DomainError(
                f"images must have {_EXPECTED[self.pixels]} as declared by "
                f"pixels={self.pixels!r}; convert them or declare another convention"
            )

    def _encode_chunk(self, chunk: NDArray[Any]) -> NDArray[np.uint16]:
        """Encode images [m, side, side] whose shape and dtype have been checked."""
        full, block = FULL_SCALE[self.pixels], self.side // _GRID
        if chunk.dtype.kind == "f":
            chunk = chunk.astype(np.float64)
            if np.isnan(chunk).any():
                raise DomainError("images hold NaN; repair or drop those images")
        if self.pixels != "uint8" and (chunk.min() < 0 or chunk.max() > full):
            raise DomainError(
                f"images hold a pixel outside 0 to {full}, the range of pixels={self.pixels!r}; "
                "rescale them or declare another convention"
            )
        ink = full - chunk if self.ink == "dark" else chunk
        background = _block_sums(ink, block) <= self._limit
        return np.packbits(background, axis=1, bitorder="little").view("<u2")[:, 0]

    @property
    def _limit(self) -> float:
        """Largest sum of ink in a background block; the threshold is read as a decimal."""
        block = self.side // _GRID
        return float(Fraction(str(self.threshold)) * FULL_SCALE[self.pixels] * block * block)


def _block_sums(ink: NDArray[Any], block: int) -> NDArray[Any]:
    """Sum each block of images [m, 4*block, 4*block] into [m, 16], in reading order.

    The loops run over the pixels of a block's side; each step adds whole strides of the batch,
    which is several times faster than reducing the short axes.
    """
    bands = ink.reshape(-1, _GRID, block, _GRID * block)
    rows: NDArray[Any] = bands[:, :, 0].astype(np.uint32 if ink.dtype == np.uint8 else np.float64)
    for i in range(1, block):
        np.add(rows, bands[:, :, i], out=rows)
    cells = rows.reshape(-1, _GRID * _GRID, block)
    sums = cells[:, :, 0].copy()
    for i in range(1, block):
        np.add(sums, cells[:, :, i], out=sums)
    return sums
