"""R^d cut into cells of equal mass under N(0, I): finite methods then serve for points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from flwr_kld.integral.base import FiniteBase, Floats, finite_points, open_unit
from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.kernel.law import BitSource, SystemBits

_MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class GaussianCells:
    """A grid over R^d whose cells all have the same mass under Q0 = N(0, I). Public."""

    dimension: int  # d >= 1
    per_axis: int  # Cells along each axis, 2 or more; at most 2**22 cells in all

    def __post_init__(self) -> None:
        keep(
            self,
            dimension=whole("dimension", self.dimension, least=1, most=_MOST_CELLS.bit_length()),
            per_axis=whole("per_axis", self.per_axis, least=2, most=_MOST_CELLS, unit="cells"),
        )
        if self.cells > _MOST_CELLS:
            raise ValueError(
                f"a grid has at most {_MOST_CELLS:,} cells, got {self.per_axis:,} along each of "
                f"{self.dimension} axes"
            )

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.per_axis**self.dimension)

    @cached_property
    def base(self) -> FiniteBase:
        """Q0 on the cells; a cell's features are its median along each axis."""
        middles = ndtri((np.arange(self.per_axis) + 0.5) / self.per_axis)
        grid = np.stack(np.meshgrid(*[middles] * self.dimension, indexing="ij"), axis=-1)
        features = grid.reshape(self.cells, self.dimension)
        return FiniteBase(np.full(self.cells, 1 / self.cells), features)

    def encode(self, points: ArrayLike) -> NDArray[np.int64]:
        """Find the cell of each point; points [m, d], cells [m]."""
        along = np.searchsorted(self._edges, finite_points(points, self.dimension), side="right")
        cells: NDArray[np.int64] = np.ravel_multi_index(tuple(along.T), self._shape)
        return cells

    def points(self, cells: NDArray[np.int64], bits: BitSource | None = None) -> Floats:
        """Draw a point of Q0 inside each cell; cells [m], points [m, d]. Post-processing."""
        along = np.stack(np.unravel_index(cells, self._shape), axis=1)
        words = (bits or SystemBits()).words(along.size)
        inside = open_unit(words).reshape(along.shape)
        points: Floats = ndtri((along + inside) / self.per_axis)
        return points

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.per_axis,) * self.dimension

    @cached_property
    def _edges(self) -> Floats:
        edges: Floats = ndtri(np.arange(1, self.per_axis) / self.per_axis)
        return edges
