"""Handwriting by writer: images, what they show, and who wrote them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import choice, instance
from flwr_kld.table.block_patterns import FULL_SCALE, BlockPatterns

DIGITS = range(10)
"""Labels of the digits. FEMNIST's capitals A to Z are 10 to 35, its small letters 36 to 61."""
_HALO = 0.02


@dataclass(frozen=True, eq=False)
class Handwriting:
    """Images of single characters, bright ink on a background of 0.

    Parameters
    ----------
    images : array [n, side, side]
        uint8.
    labels : array [n]
        Integers, 0 or more; 0 to 9 are the digits.
    writer : array [n]
        Integers: who wrote each image. In a federation a writer is a client.
    pixels : "uint8" or "digits", default "uint8"
        Full ink is 255 ("uint8"), or 16 ("digits": scikit-learn's).

    Raises
    ------
    ValueError
        If an array has the wrong shape, dtype or range. The message shows no value.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    writer: NDArray[np.int64]
    pixels: Literal["uint8", "digits"] = "uint8"

    def __post_init__(self) -> None:
        images = np.asarray(self.images)
        labels, writer = _integers(self.labels, "labels"), _integers(self.writer, "writer")
        choice("pixels", self.pixels, ("uint8", "digits"))
        if images.ndim != 3 or images.shape[1] != images.shape[2] or images.dtype != np.uint8:
            raise ValueError("images must be square, of shape [n, side, side] and dtype uint8")
        if not len(images) == len(labels) == len(writer):
            raise ValueError("images, labels and writer must have the same length")
        if (images > FULL_SCALE[self.pixels]).any():
            raise ValueError(f"images hold a pixel outside the range of pixels={self.pixels!r}")
        if (labels < 0).any():
            raise ValueError("labels must not be negative")
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "writer", writer)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        """Show the form only: a repr may end up in a log."""
        return f"Handwriting(side={self.side}, pixels={self.pixels!r})"

    @property
    def side(self) -> int:
        """Height and width of an image, in pixels."""
        return int(self.images.shape[1])

    @property
    def writers(self) -> NDArray[np.int64]:
        """Distinct writers, ascending [w]."""
        return self._groups[0]

    def of_writer(self, writer: int) -> "Handwriting":
        """Return what one writer wrote, in the order of this data set.

        Raises `ValueError` if there is no such writer.
        """
        writers, rows = self._groups
        place = int(np.searchsorted(writers, writer))
        if place == len(writers) or writers[place] != writer:
            raise ValueError("there is no such writer; choose one of .writers")
        return self._select(rows[place])

    def with_labels(self, labels: Iterable[int] = DIGITS) -> "Handwriting":
        """Return the images that show one of ``labels``, in the order of this data set."""
        return self._select(np.flatnonzero(np.isin(self.labels, list(labels))))

    def patterns(self, threshold: float = 0.0, *, cropped: bool = True) -> BlockPatterns:
        """Return the 4x4 block-pattern domain of these images, the same wherever they come from.

        Parameters
        ----------
        threshold : float, default 0
            Largest mean ink of a background block, as a fraction of full ink.
        cropped : bool, default True
            Cut the square around the ink into blocks, and count ink of up to .02 as none: in
            FEMNIST, a character fills a part of its image, and has a halo of 1 to 5 of 255. False
            cuts the whole image with all its ink, as the PRIEST-KLD paper does. Images of
            "digits" fill their 8x8 pixels, and are never cut.
        """
        cropped = instance("cropped", cropped, bool, "True or False") and self.pixels == "uint8"
        return BlockPatterns(
            threshold,
            pixels=self.pixels,
            side=self.side,
            faint=_HALO if cropped else 0.0,
            crop=cropped,
        )

    def _select(self, rows: NDArray[np.int64]) -> "Handwriting":
        return replace(
            self, images=self.images[rows], labels=self.labels[rows], writer=self.writer[rows]
        )

    @cached_property
    def _groups(self) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """Writers ascending [w], and the rows of each: one sort for all of them."""
        order = np.argsort(self.writer, kind="stable")
        writers, starts = np.unique(self.writer[order], return_index=True)
        return writers, np.split(order, starts[1:])


def _integers(values: Any, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    return array.astype(np.int64)
