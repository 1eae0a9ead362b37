"""4x4 block patterns of square grey images: handwriting as one of 2^16 symbols, and `missing`.

An image, or the square around its ink, is cut into sixteen equal blocks (28x28 into 7x7, 8x8 into
2x2). Bit i, counted in reading order from the top left, is set where block i is background: its
mean ink is at most the threshold. What is not an image of the declared form is the last symbol.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, SupportsIndex, get_args

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import choice, finite, integer, set_fields
from flwr_kld.table.base import Domain, Symbols

Pixels = Literal["uint8", "digits"]

FULL_SCALE: dict[Pixels, int] = {"uint8": 255, "digits": 16}
"""Largest pixel value of each image convention; the smallest is 0."""

_GRID = 4
_CHUNK = 4096  # images encoded at a time: bounds memory and keeps the work in the cache


@dataclass(frozen=True, eq=False)
class BlockPatterns(Domain):
    """Which blocks of an image, of bright ink on a background of 0, are background.

    Parameters
    ----------
    threshold : float, default 0
        Largest mean ink of a background block, as a fraction of full ink, in [0, 1].
    pixels : "uint8" or "digits", default "uint8"
        "uint8": whole numbers 0 to 255. "digits": 0 to 16, as scikit-learn's digits.
    side : int, default 28
        Height and width in pixels, a multiple of 4.
    faint : float, default 0
        Largest ink of a pixel that counts as none, as a fraction of full ink, in [0, 1).
        Resampling leaves faint ink beside every stroke: 1 to 5 of 255 in FEMNIST.
    crop : bool, default False
        Cut the smallest square around the ink into blocks (at least 4x4 pixels), not the whole
        image. For characters that are smaller than their page, as FEMNIST's are.

    Raises
    ------
    DomainError
        If a parameter is outside what is listed here.

    Examples
    --------
    >>> blank = np.zeros((1, 28, 28), dtype=np.uint8)
    >>> BlockPatterns().encode(blank)
    array([65535])
    >>> BlockPatterns().encode([np.zeros((8, 8)), None])
    array([65536, 65536])
    """

    threshold: float = 0.0
    pixels: Pixels = "uint8"
    side: int = 28
    faint: float = 0.0
    crop: bool = False
    kind: ClassVar[str] = "block_patterns"
    unlisted: ClassVar[tuple[str, ...]] = ("missing",)

    def __post_init__(self) -> None:
        try:
            set_fields(
                self,
                threshold=finite("threshold", self.threshold, least=0, most=1),
                faint=finite("faint", self.faint, least=0, below=1),
                side=integer("side", self.side, least=_GRID),
                pixels=choice("pixels", self.pixels, get_args(Pixels)),
            )
        except ValueError as error:
            raise DomainError(str(error)) from None
        if self.side % _GRID:
            raise DomainError(f"side must be a multiple of {_GRID}, got {self.side}")
        if type(self.crop) is not bool:
            raise DomainError("crop must be True or False")

    @property
    def size(self) -> int:
        """2^16 patterns, and `missing`."""
        return (1 << _GRID * _GRID) + 1

    def encode(self, records: Any) -> Symbols:
        """Map images to patterns.

        Every record has a symbol: one of another shape, with a pixel that is NaN, masked or
        outside the declared range, or that is not an image at all is `missing`. Whole numbers are
        summed without rounding, so the comparison with the threshold is exact.

        Parameters
        ----------
        records : array [n, side, side], or a sequence of n images
            Images in the declared convention.

        Returns
        -------
        Symbols
            int64 [n].

        Raises
        ------
        DomainError
            If ``records`` is not an array or a sequence: how many there are is not known.
        """
        whole = _real(records) if hasattr(records, "__array__") else None
        if whole is not None and whole.ndim > 0:
            return self._encode_array(whole)
        if (
            whole is not None
            or not isinstance(records, Iterable)
            or isinstance(records, str | bytes | Mapping)
        ):
            raise DomainError(
                "records must be an array or a sequence of images, one for each record"
            )
        # An odd record must not change what the others become: each is converted by itself.
        images = [_real(record) for record in records]
        shape = (self.side, self.side)
        fit = {i: x for i, x in enumerate(images) if x is not None and x.shape == shape}
        symbols = np.full(len(images), self.size - 1, dtype=np.int64)
        if fit:
            symbols[list(fit)] = self._encode_array(np.stack(list(fit.values())))
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
            If ``symbol`` is not in 0 .. 2^16-1: `missing` has no picture.
        """
        index = self._index(symbol)
        if index == self.size - 1:
            raise DomainError("the symbol 'missing' has no picture")
        return (index >> np.arange(_GRID * _GRID) & 1).astype(np.bool_).reshape(_GRID, _GRID)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the four rows of the pattern, ``.`` background and ``#`` ink, or ``missing``."""
        if self._index(symbol) == self.size - 1:
            return "missing"
        return "/".join("".join(".#"[not b] for b in row) for row in self.pattern(symbol))

    def _encode_array(self, images: NDArray[Any]) -> Symbols:
        """Encode numbers [n, ...], each row a record."""
        symbols = np.full(len(images), self.size - 1, dtype=np.int64)
        if images.shape[1:] == (self.side, self.side):
            for start in range(0, len(images), _CHUNK):
                part = images[start : start + _CHUNK]
                symbols[start : start + _CHUNK] = self._encode_chunk(part)
        return symbols

    def _encode_chunk(self, chunk: NDArray[Any]) -> Symbols:
        """Encode numbers [m, side, side]."""
        full = FULL_SCALE[self.pixels]
        readable = np.ones(len(chunk), dtype=np.bool_)
        if chunk.dtype != np.uint8:
            with np.errstate(over="ignore"):
                chunk = chunk.astype(np.float64)
        if chunk.dtype != np.uint8 or self.pixels != "uint8":
            fits = (chunk >= 0) & (chunk <= full)
            if self.pixels == "uint8":
                fits &= chunk == np.floor(chunk)
            readable = np.asarray(fits.all(axis=(1, 2)))
            chunk = np.where(readable[:, None, None], chunk, np.zeros((), chunk.dtype))
        if self.faint:
            chunk = chunk * (chunk > self._of_full(self.faint, 1))
        background = self._background(chunk)
        symbols = np.packbits(background, axis=1, bitorder="little").view("<u2")[:, 0]
        return np.where(readable, symbols.astype(np.int64), self.size - 1)

    def _background(self, ink: NDArray[Any]) -> NDArray[np.bool_]:
        """Which blocks of images, or of the squares around their ink, are background [m, 16]."""
        inked = ink > 0 if self.crop else np.ones((1, self.side, self.side), dtype=np.bool_)
        top, height = _extent(np.any(inked, axis=2))
        left, width = _extent(np.any(inked, axis=1))
        square = np.maximum(np.maximum(height, width), _GRID)
        rows = _bands(top, height, square, self.side)
        columns = _bands(left, width, square, self.side)
        sums = rows @ ink.astype(np.float64) @ columns.transpose(0, 2, 1)
        areas = rows.sum(axis=2)[:, :, None] * columns.sum(axis=2)[:, None, :]
        most = (self.side // _GRID) ** 2
        limits = np.array([self._of_full(self.threshold, area) for area in range(most + 1)])
        background: NDArray[np.bool_] = sums <= limits[areas.astype(np.int64)]
        return background.reshape(-1, _GRID * _GRID)

    def _of_full(self, fraction: float, area: int) -> float:
        """Fraction of full ink over an area in pixels; the fraction is read as a decimal."""
        return float(Fraction(str(fraction)) * FULL_SCALE[self.pixels] * area)


def _real(values: Any) -> NDArray[Any] | None:
    """Return an array of real numbers, NaN where masked; None if ``values`` do not form one."""
    try:
        array = np.asanyarray(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
        if array.dtype.kind not in "buif":
            return None
        if isinstance(array, np.ma.MaskedArray):
            return np.ma.filled(array.astype(np.float64), np.nan)
        return np.asarray(array)
    except Exception:  # whatever a record's own conversion raises tells of that record
        return None


def _extent(inked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First line with ink, and lines up to the last one, [m] each; all lines where none has ink."""
    first = inked.argmax(axis=1)
    length = inked.shape[1] - inked[:, ::-1].argmax(axis=1) - first
    return first, length


def _bands(
    first: NDArray[np.int64], length: NDArray[np.int64], square: NDArray[np.int64], side: int
) -> NDArray[np.float64]:
    """Which lines are in each quarter of a square around the ink, [m, 4, side]."""
    start = np.clip(first + (length - square) // 2, 0, side - square)
    lines = np.arange(side) - start[:, None]
    quarter = (_GRID * lines + _GRID - 1) // square[:, None]  # bounds at floor(k * square / 4)
    inside: NDArray[np.bool_] = quarter[:, None, :] == np.arange(_GRID)[:, None]
    return inside.astype(np.float64)
