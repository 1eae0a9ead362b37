"""The public starting point Q0: a finite law, on R^d that of a standard Gaussian's cells.

Nothing here may depend on private data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from flwr_kld.kernel.arguments import instance, integer, set_fields
from flwr_kld.kernel.law import BitSource, SystemBits
from flwr_kld.reference import Reference
from flwr_kld.table.base import Domain
from flwr_kld.table.block_patterns import BlockPatterns
from flwr_kld.table.categories import Categories
from flwr_kld.table.table import require_one_symbol

Floats = NDArray[np.float64]
_UNLISTED = 0.01


@dataclass(frozen=True, eq=False)
class FiniteBase:
    """Q0 on n symbols, and the features by which learners distinguish symbols.

    Parameters
    ----------
    mass : Floats
        Shape [n], positive, summing to 1.
    features : Floats
        Shape [n, d], finite.

    Raises
    ------
    ValueError
        If the masses are not a positive distribution, or the features do not fit.
    """

    mass: Floats
    features: Floats

    def __post_init__(self) -> None:
        mass = finite_array("a base's masses", self.mass)
        features = finite_array("features", self.features)
        if mass.ndim != 1 or len(mass) < 2:
            raise ValueError("a finite base needs the masses of at least two symbols")
        if (mass <= 0).any():
            raise ValueError(
                "a base must give every symbol a positive mass, or data there could never be drawn:"
                " mix it with the uniform law (floor= of Reference)"
            )
        if abs(float(mass.sum()) - 1) > 1e-6:
            raise ValueError(f"a base's masses must sum to 1, got {mass.sum():.6g}")
        if features.ndim != 2 or len(features) != len(mass):
            raise ValueError("features must be one row of numbers for each symbol")
        mass = mass / mass.sum()
        mass.setflags(write=False)
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "features", features)

    @classmethod
    def of(cls, reference: Reference) -> FiniteBase:
        """Take a public reference as Q0, with `domain_features`.

        Where it has no mass for the 'other' and 'missing' symbols they get .01 together: private
        records may well be such.
        """
        instance("reference", reference, Reference, "a Reference")
        mass, domain = reference.probabilities, reference.domain
        outside = (domain.unlisted_index() >= 0) & (mass == 0)
        if outside.any():
            mass = (1 - _UNLISTED) * mass + _UNLISTED * outside / np.count_nonzero(outside)
        return cls(mass, domain_features(domain))

    @classmethod
    def uniform(cls, domain: Domain) -> FiniteBase:
        """Give every symbol of a domain the same mass: the Q0 that needs no data at all."""
        features = domain_features(domain)
        return cls(np.full(domain.size, 1 / domain.size), features)

    @property
    def size(self) -> int:
        """n, the number of symbols."""
        return len(self.mass)

    def histogram(self, symbols: ArrayLike) -> NDArray[np.int64]:
        """Count records by symbol, shape [n].

        Raises `ValueError` if the records are not symbols of this base; shows no record.
        """
        drawn = np.asarray(symbols)
        if drawn.ndim != 1 or (drawn.size and drawn.dtype.kind not in "iu"):
            raise ValueError(
                "records of a finite base must be a list of integer symbols: of a Table, fit one "
                "column, or Categories of a few"
            )
        drawn = drawn.astype(np.int64)
        if drawn.size and (drawn.min() < 0 or drawn.max() >= self.size):
            raise ValueError(f"a record is not one of the symbols 0 to {self.size - 1}")
        return np.bincount(drawn, minlength=self.size)


def finite_array(name: str, values: object) -> Floats:
    """Return finite numbers as floats; raise ValueError, showing no value, if they are not."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers that float64 can hold") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite: repair or drop those that are not")
    return array


def domain_features(domain: Domain) -> Floats:
    """Describe each symbol of a domain by numbers, shape [size, d]; a `Table` is refused."""
    instance("domain", domain, Domain, "a Domain, such as Labels(['bus', 'car'])")
    require_one_symbol(domain, "a sampler's base")
    symbols = np.arange(domain.size)
    if isinstance(domain, BlockPatterns):
        return (symbols[:, None] >> np.arange(17) & 1).astype(np.float64)
    if isinstance(domain, Categories):
        sizes = [feature.size for feature in domain.domains.values()]
        return np.stack(np.unravel_index(symbols, sizes), axis=1).astype(np.float64)
    return symbols[:, None].astype(np.float64)


_MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class GaussianCells:
    """A grid over R^d whose cells all have the same mass under Q0 = N(0, I). Public."""

    dimension: int  # d >= 1
    per_axis: int  # Cells along each axis, 2 or more; at most 2**22 cells in all

    def __post_init__(self) -> None:
        set_fields(
            self,
            dimension=integer("dimension", self.dimension, least=1, most=_MOST_CELLS.bit_length()),
            per_axis=integer("per_axis", self.per_axis, least=2, most=_MOST_CELLS, unit="cells"),
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
        array = finite_array("points", points)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ValueError(f"points must have shape [m, {self.dimension}]")
        along = np.searchsorted(self._edges, array, side="right")
        cells: NDArray[np.int64] = np.ravel_multi_index(tuple(along.T), self._shape)
        return cells

    def points(self, cells: NDArray[np.int64], bits: BitSource | None = None) -> Floats:
        """Draw a point of Q0 inside each cell; cells [m], points [m, d]. Post-processing."""
        along = np.stack(np.unravel_index(cells, self._shape), axis=1)
        words = (bits or SystemBits()).words(along.size).reshape(along.shape)
        # Few enough bits that no sum is rounded, nor a point onto the edge of the next cell.
        inside = ((words >> np.uint64(38)).astype(np.float64) + 0.5) * 2.0**-26
        points: Floats = ndtri((along + inside) / self.per_axis)
        return points

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.per_axis,) * self.dimension

    @cached_property
    def _edges(self) -> Floats:
        edges: Floats = ndtri(np.arange(1, self.per_axis) / self.per_axis)
        return edges
