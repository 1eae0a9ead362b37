"""What is promised of a table is what its clients count: all small tables, through the real path.

Every table of at most `MOST` rows in up to three columns of three symbols is encoded and counted by
cell as a client does it, and so is each neighbour of it; and so are the sums of scores of it.
"""

from collections import Counter
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest
from rows import counted as counted_of
from rows import values_of

from flwr_kld import Labels, Reference, Table
from flwr_kld.ask.partition import Partition
from flwr_kld.kernel.promise import Allotment, Ball, WholeClients, l1_norm

MOST = 4
FEATURES = {"a": ["x"], "b": ["y"], "c": ["z"]}
"""One listed symbol, 'other' and 'missing': three of each."""
RAW = {"x": ["x", "-", None], "y": ["y", "-", None], "z": ["z", "-", None]}


@lru_cache
def tables(columns: int, most: int):
    """Each multiset of rows, encoded and counted; `most` rows at most."""
    names = list(FEATURES)[:columns]
    table = Table({name: Labels(FEATURES[name]) for name in names})
    plan = Partition().draw(
        Reference.from_counts(table, {name: [1, 1, 1] for name in names}), np.random.default_rng(0)
    )
    rows = list(product(*(RAW[FEATURES[name][0]] for name in names)))
    encoded = table.encode({name: [row[i] for row in rows] for i, name in enumerate(names)})
    every = [
        chosen
        for n in range(most + 1)
        for chosen in combinations_with_replacement(range(len(rows)), n)
    ]
    symbols = [encoded[np.array(chosen, dtype=np.int64)] for chosen in every]
    return plan, dict(zip(every, values_of(counted_of(plan, *symbols)), strict=True))


def neighbours(counted):
    """Pairs of tables that differ in one row."""
    rows = sum(len(one) == 1 for one in counted)
    for one in counted:
        for i in range(len(one)):
            rest = one[:i] + one[i + 1 :]
            yield from ((one, tuple(sorted((*rest, row)))) for row in range(rows))


@pytest.mark.parametrize(("columns", "most"), [(1, MOST), (2, MOST), (3, 2)])
def test_one_row_moves_each_column_as_one_record_moves_a_column(columns, most):
    """Attained in all columns at once, and never by more than 1 in a cell."""
    plan, counted = tables(columns, most)
    claimed = Allotment.even(columns).moves("record")
    assert claimed == (1, -1) * columns
    moves = set()
    for one, other in neighbours(counted):
        move = counted[one].astype(int) - counted[other]
        for part in plan.parts:
            assert Counter(np.abs(move[part]).tolist()).keys() <= {0, 1}
            assert move[part].sum() == 0
        moves.add(tuple(sorted(np.abs(move[move != 0]).tolist())))
    assert max(moves, key=len) == tuple(map(abs, claimed))
    assert max(map(len, moves)) == l1_norm(claimed)


def test_one_row_of_up_to_four_moves_all_of_three_columns():
    """31,000 tables, and every row in place of every other."""
    plan, counted = tables(3, MOST)
    claimed = Allotment.even(3).moves("record")
    vectors = np.array(list(counted.values()), dtype=np.int8)
    for others in beside(counted):
        moves = vectors[others[:, :, None]] - vectors[others[:, None, :]]
        by_column = [moves[..., part] for part in plan.parts]
        assert np.abs(moves).max() == 1
        assert all((own.sum(axis=-1) == 0).all() for own in by_column)
        assert all(np.abs(own).sum(axis=-1).max() == len(claimed) // 3 for own in by_column)
        assert np.abs(moves).sum(axis=-1).max() == l1_norm(claimed)


def beside(counted):
    """Places of all tables that are one of each size and any one row more, [tables, 27]."""
    place, rows = {chosen: i for i, chosen in enumerate(counted)}, range(3**3)
    for size in range(MOST):
        own = [one for one in counted if len(one) == size]
        yield np.array([[place[tuple(sorted((*one, row)))] for row in rows] for one in own])


@pytest.mark.parametrize(("columns", "most"), [(1, 3), (2, 3), (3, 2), (3, 3)])
def test_a_whole_client_moves_within_the_ball_of_its_rows(columns, most):
    """Replaced by none: B d in the 1-norm."""
    _, counted = tables(columns, most)
    vectors = np.array(list(counted.values()), dtype=int)
    ball = Allotment.even(columns).moves(WholeClients(most))
    assert ball == Ball(1, columns * most, most)
    assert vectors.sum(axis=1).max() == ball.power
    assert vectors.max() == ball.largest
    assert np.sqrt((vectors**2).sum(axis=1)).max() <= most * sqrt(columns) + 1e-9
