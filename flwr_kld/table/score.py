"""A public model's score of a row, as one more column: it shows drifts of dependences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.common.extras import require
from flwr_kld.kernel.arguments import as_tuple, integer, set_fields
from flwr_kld.table.base import Domain, Spec, Symbols, as_array
from flwr_kld.table.binned import quantile_levels

_LEAVES = 16
"""Most leaves of a tree: bits of the mask that finds a row's own."""
_MOST = 2**31
"""Bound of a leaf's value and of an edge."""
_UNIT = 1000
"""Leaf values are whole thousandths of a log odds."""
_TREES = 100
_COPIES = 4
"""Rows of columns drawn by themselves for each row, from which trees separate them."""
_ROWS = 2**14
"""Rows that are scored at a time."""
Tree = Sequence[int | Sequence[int]]


@dataclass(frozen=True, eq=False)
class Score(Domain):
    """The sum of public decision trees over a row's symbols, cut at public edges into bins.

    A score is a further column of a `Table`, and finds what no column shows by itself: destinations
    that no longer go with distances. Clients compute it from the symbols of a row's other columns,
    so every row has one. Thresholds, leaves and edges are integers: every processor counts a row
    alike, and the table's fingerprint covers them all.

    Parameters
    ----------
    columns : Mapping of str to int
        Features of the table that the trees read, in order, and the number of symbols of each.
    trees : Sequence of trees
        Each in pre-order: ``[column, symbol]`` for a split, whose first branch takes rows of up to
        that symbol of the column with that place in `columns`; an integer for a leaf. 16 leaves at
        most.
    edges : Sequence of int
        Strictly increasing.

    Raises
    ------
    DomainError
        If a tree does not end, or reads what is not there, or a number is not an integer in range.

    Examples
    --------
    >>> score = Score({"sex": 3, "hand": 4}, trees=[[[1, 0], -7, [0, 1], 2, 5]], edges=[0, 3])
    >>> score.encode([[0, 0], [0, 1], [2, 1]])
    array([0, 1, 2])
    """

    columns: Mapping[str, int]
    trees: Sequence[Tree]
    edges: Sequence[int]
    kind: ClassVar[str] = "score"
    joins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise DomainError("a Score reads the columns of a mapping of names to sizes")
        columns = {
            name: integer(f"size of {name!r}", n, least=1) for name, n in self.columns.items()
        }
        trees = tuple(_tree(tree, list(columns.values())) for tree in as_tuple("trees", self.trees))
        edges = tuple(_integer("an edge", edge) for edge in as_tuple("edges", self.edges))
        if not trees or not edges or any(b <= a for a, b in pairwise(edges)):
            raise DomainError("a Score needs trees, and edges that increase strictly")
        set_fields(self, columns=columns, trees=trees, edges=edges)

    @classmethod
    def fit(
        cls, columns: Mapping[str, int], symbols: Symbols, *, bins: int = 20
    ) -> tuple[Score, NDArray[np.int64]]:
        """Fit trees that separate public rows from rows whose columns are each drawn by itself.

        The trees learn from half of the rows. The other half gives the edges, quantiles and its
        greatest score, beyond which lie rows unlike any public one; and only that half says what
        the score's law is: of rows that they learned from, trees say too often that they are rows.
        ``Reference.from_frame(table, rows, score="dependence")`` does it.

        Parameters
        ----------
        columns : Mapping of str to int
            As of the score.
        symbols : NDArray
            Of public rows, shape [n, columns], each of the column's own from 0. Clients see the
            trees.
        bins : int
            Most bins of the score, three or more. Default 20.

        Returns
        -------
        tuple of Score and NDArray[np.int64]
            The score, and how many rows of the other half fall into each bin; shape [bins].

        Raises
        ------
        ValueError
            If there is one column only, or the rows are too few or too little related for a model.
        ImportError
            Without scikit-learn, which the extra ``integral`` installs.
        """
        bins = integer("bins", bins, least=3)
        if len(columns) < 2:
            raise DomainError("a Score is of how columns go together: it needs two or more")
        if len(symbols) < 2 * bins:
            raise DomainError(f"a Score of {bins} bins needs {2 * bins} public rows or more")
        generator = np.random.default_rng(0)  # of public rows: any will do, but the same each time
        learned, held_out = np.array_split(generator.permutation(symbols), 2)
        # drawn, not shuffled: in columns that are exactly as they were, no first split gains
        alone = np.stack(
            [generator.choice(column, _COPIES * len(column)) for column in learned.T], axis=1
        )
        ensemble = require("sklearn.ensemble", extra="integral")
        model = ensemble.HistGradientBoostingClassifier(
            learning_rate=0.2,
            max_iter=_TREES,
            max_leaf_nodes=_LEAVES,
            early_stopping=False,
            random_state=0,
        ).fit(
            np.concatenate([learned, alone]),
            np.repeat([0, 1], [len(learned), len(alone)]),
            sample_weight=np.repeat([1, 1 / _COPIES], [len(learned), len(alone)]),
        )
        trees = [_in_integers(tree.nodes) for (tree,) in model._predictors]
        if all(len(tree) == 1 for tree in trees):
            raise DomainError(
                "no Score: these public rows do not show that the columns depend on each other"
            )
        sums = cls(columns, trees, [0])._sums(held_out.T)
        cuts = np.quantile(sums, quantile_levels(bins - 1), method="higher")
        beyond = sums.max() + 1
        score = cls(columns, trees, [*np.unique(cuts[cuts > sums.min()]).tolist(), int(beyond)])
        counts = np.bincount(score.of(held_out.T), minlength=score.size)
        counts[-1] = 1  # of n + 1 rows, one is expected beyond n others
        return score, counts

    @property
    def size(self) -> int:
        """Number of bins, one more than edges."""
        return len(self.edges) + 1

    def encode(self, records: Any) -> Symbols:
        """Score rows of symbols, integers [n, columns], each of the column's own from 0.

        One that the column has not counts as the nearest that it has.
        """
        rows = as_array(records)
        if not rows.size:
            return np.zeros(0, dtype=np.int64)
        if rows.dtype.kind not in "iu" or rows.shape[1:] != (len(self.columns),):
            raise DomainError(f"a Score takes integers in {len(self.columns)} columns")
        last = [size - 1 for size in self.columns.values()]
        return self.of(np.clip(rows, 0, last).astype(np.int64).T)

    def of(self, symbols: Symbols) -> NDArray[np.int64]:
        """Return the bins of rows whose symbols are [columns, rows], those of a column from 0."""
        return self._edges.searchsorted(self._sums(symbols), side="right").astype(np.int64)

    def _sums(self, symbols: Symbols) -> NDArray[np.int64]:
        sums = np.zeros(symbols.shape[1], dtype=np.int64)
        for first in range(0, symbols.shape[1], _ROWS):
            rows = slice(first, first + _ROWS)
            for masks, leaves in self._compiled:
                left: Any = np.uint16(0xFFFF)
                for column, of_symbol in masks.items():
                    left = left & of_symbol[symbols[column, rows]]
                sums[rows] += leaves[left]
        return sums

    @cached_property
    def _compiled(self) -> list[tuple[dict[int, NDArray[np.uint16]], NDArray[np.int64]]]:
        """Leaves that each symbol of a column leaves possible, and the value of each last one.

        A split rules out the leaves of the branch that a row does not take. All splits together,
        also those that a row does not meet, leave exactly one: of any two leaves, the split where
        their ways part rules one out.
        """
        return [_masks(tree, list(self.columns.values())) for tree in self.trees]

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        return np.array(self.edges, dtype=np.int64)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return the bin of the score, as ``"< a"``, ``"[a, b)"`` or ``">= b"``."""
        index = self._index(symbol)
        if index == 0:
            return f"< {self.edges[0]}"
        if index == len(self.edges):
            return f">= {self.edges[-1]}"
        return f"[{self.edges[index - 1]}, {self.edges[index]})"

    def spec(self) -> Spec:
        """Return the columns as pairs of name and size, the trees, and the edges."""
        return {**super().spec(), "columns": [[name, n] for name, n in self.columns.items()]}

    @classmethod
    def from_fields(cls, fields: Spec) -> Self:
        """Build it from the pairs of its spec."""
        return cls(**{**fields, "columns": dict(fields["columns"])})


def _integer(what: str, value: Any) -> int:
    number = integer(what, value, least=-_MOST)
    if number > _MOST:
        raise DomainError(f"{what} of a Score is at most {_MOST}, not {number}")
    return number


def _tree(tree: Any, sizes: Sequence[int]) -> tuple[int | tuple[int, int], ...]:
    """Return a tree in pre-order, if it is one over columns of these sizes."""
    nodes: list[int | tuple[int, int]] = []
    for node in as_tuple("a tree", tree):
        if isinstance(node, list | tuple):
            if len(node) != 2:
                raise DomainError("a split of a Score is a column's place and a symbol")
            column, symbol = (integer("a split", part, least=0) for part in node)
            if column >= len(sizes) or symbol >= sizes[column] - 1:
                raise DomainError(
                    f"a split of a Score has two branches, and {[column, symbol]} not"
                )
            nodes.append((column, symbol))
        else:
            nodes.append(_integer("a leaf", node))
    wanted = [1]  # branches that are still to come, after each node
    for node in nodes:
        wanted.append(wanted[-1] + (1 if isinstance(node, tuple) else -1))
    if wanted[-1] or 0 in wanted[:-1] or len(nodes) >= 2 * _LEAVES:
        raise DomainError(
            f"a tree of a Score is in pre-order and ends with its last leaf, of {_LEAVES} at most"
        )
    return tuple(nodes)


def _masks(
    tree: Tree, sizes: Sequence[int]
) -> tuple[dict[int, NDArray[np.uint16]], NDArray[np.int64]]:
    masks: dict[int, NDArray[np.uint16]] = {}
    values: list[int] = []
    rest = iter(tree)

    def grow() -> int:
        """Read a branch; return the bits of its leaves."""
        node = next(rest)
        if isinstance(node, int):
            values.append(node)
            return 1 << (len(values) - 1)
        column, symbol = node
        up_to, beyond = grow(), grow()
        of_symbol = masks.setdefault(column, np.full(sizes[column], 0xFFFF, dtype=np.uint16))
        of_symbol[: symbol + 1] &= np.uint16(0xFFFF ^ beyond)
        of_symbol[symbol + 1 :] &= np.uint16(0xFFFF ^ up_to)
        return up_to | beyond

    every = grow()
    for of_symbol in masks.values():
        of_symbol &= np.uint16(every)
    leaves = np.zeros(2**16, dtype=np.int64)
    leaves[0xFFFF] = values[0]  # a tree without a split
    for place, value in enumerate(values):
        leaves[1 << place] = value
    return masks, leaves


def _in_integers(nodes: Any) -> list[Any]:
    """Return a tree of scikit-learn's with integers for its numbers."""
    found: list[Any] = []

    def walk(at: int) -> None:
        node = nodes[at]
        if node["is_leaf"]:
            found.append(round(float(node["value"]) * _UNIT))
            return
        found.append([int(node["feature_idx"]), int(np.floor(node["num_threshold"]))])
        walk(int(node["left"]))
        walk(int(node["right"]))

    walk(0)
    return found
