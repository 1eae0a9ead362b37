"""The public starting point Q0: a finite law, or a standard Gaussian.

Nothing here may depend on private data. Draws take their bits from the operating system, because
which of Q0's draws become part of a release must be unpredictable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from flwr_kld.domain.base import Domain
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.table import require_one_symbol
from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.kernel.law import TOTAL, TOTAL_BITS, BitSource, Cumulative, SystemBits
from flwr_kld.kernel.vector import Private
from flwr_kld.reference import Reference


class Categorical(Private):
    """A law on symbols 0..n-1 with ``P(i) = weights[i] / 2**128``. Shows no weight."""

    __slots__ = ("_cumulative",)

    def __init__(self, weights: Sequence[int]) -> None:
        if len(weights) < 2 or min(weights) <= 0 or sum(weights) != TOTAL:
            raise ValueError("a law needs two or more positive weights that sum to 2**128")
        self._cumulative = Cumulative(weights)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` independent symbols, shape [size]."""
        return self._cumulative.draw(size, bits)


def integer_weights(mass: NDArray[np.float64]) -> tuple[int, ...]:
    """Round positive masses that sum to 1 to integers >= 1 that sum to 2**128, shape [n]."""
    weights = [max(1, int(w)) for w in np.ldexp(mass, TOTAL_BITS).tolist()]
    weights[int(np.argmax(mass))] += TOTAL - sum(weights)
    return tuple(weights)


Floats = NDArray[np.float64]


class Base(Protocol):
    """A public law that can be drawn from."""

    def draw(self, size: int, bits: BitSource) -> NDArray[Any]:
        """Draw `size` independent points, shape [size] or [size, d]."""
        ...


@dataclass(frozen=True, eq=False)
class FiniteBase:
    """Q0 on n symbols, and the features by which learners tell symbols apart.

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
    def of(cls, reference: Reference, *, unlisted: float = 0.01) -> FiniteBase:
        """Take a public reference as Q0, with `domain_features`.

        Parameters
        ----------
        unlisted : float
            In (0, 1): mass of the 'other' and 'missing' symbols where the reference has none for
            them; private records may well be such.
        """
        mass, domain = reference.probabilities, reference.domain
        outside = (domain.unlisted_way() >= 0) & (mass == 0)
        if outside.any():
            if not 0 < unlisted < 1:
                raise ValueError(f"unlisted must be in (0, 1), got {unlisted}")
            mass = (1 - unlisted) * mass + unlisted * outside / np.count_nonzero(outside)
        return cls(mass, domain_features(domain))

    @classmethod
    def uniform(cls, domain: Domain) -> FiniteBase:
        """Give every symbol of a domain the same mass: the Q0 that needs no data at all."""
        return cls(np.full(domain.size, 1 / domain.size), domain_features(domain))

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

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `size` symbols from Q0, shape [size]."""
        return self._law.draw(size, bits)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The law that `draw` follows: symbol i has probability ``weights[i] / 2**128``."""
        return integer_weights(self.mass)

    @cached_property
    def _law(self) -> Categorical:
        return Categorical(self.weights)


@dataclass(frozen=True)
class GaussianBase:
    """Q0 = N(0, I) on R^d, as floats.

    Parameters
    ----------
    dimension : int
        d >= 1.
    """

    dimension: int

    def __post_init__(self) -> None:
        keep(self, dimension=whole("dimension", self.dimension, least=1))

    def draw(self, size: int, bits: BitSource) -> Floats:
        """Draw `size` points, shape [size, d]."""
        words = bits.words(size * self.dimension)
        points: Floats = ndtri(open_unit(words)).reshape(size, self.dimension)
        return points


def finite_points(points: ArrayLike, dimension: int) -> Floats:
    """Return points as floats [m, d]; raise ValueError, showing no value, if they are not."""
    array = finite_array("points", points)
    if array.ndim != 2 or array.shape[1] != dimension:
        raise ValueError(f"points must have shape [m, {dimension}]")
    return array


def finite_array(name: str, values: object) -> Floats:
    """Return finite numbers as floats; raise ValueError, showing no value, if they are not."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers that float64 can hold") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite: repair or drop those that are not")
    return array


def open_unit(words: NDArray[np.uint64]) -> Floats:
    """Map uniform words to floats in (0, 1), never 0 or 1."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def domain_features(domain: Domain) -> Floats:
    """Describe each symbol of a domain by numbers, shape [size, d]; a `Table` is refused."""
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
