"""A score is one more symbol of a row, the same everywhere, and changes with that row alone."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import domain_from_spec
from flwr_kld.table.score import Score

SIZES = {"a": 5, "b": 3, "c": 2}


def trees(leaves):
    """Trees of up to `leaves` leaves in pre-order."""
    leaf = st.integers(-1000, 1000).map(lambda value: [value])

    def branch(pair):
        splits = st.sampled_from(list(enumerate(SIZES.values()))).flatmap(
            lambda c: st.tuples(st.just(c[0]), st.integers(0, c[1] - 2)).map(list)
        )
        return st.tuples(splits, pair, pair).map(lambda t: [t[0], *t[1], *t[2]])

    return st.recursive(leaf, branch, max_leaves=leaves).filter(lambda t: len(t) < 2 * leaves)


def walked(tree, row):
    """Walk a tree in pre-order, as its definition says."""
    rest = iter(tree)

    def walk(wanted):
        node = next(rest)
        if isinstance(node, int):
            return node if wanted else None
        goes_first = row[node[0]] <= node[1]
        first = walk(wanted and goes_first)
        second = walk(wanted and not goes_first)
        return first if goes_first else second

    return walk(True)


@given(st.lists(trees(16), min_size=1, max_size=4), st.integers(-500, 500))
def test_the_masks_find_the_leaf_that_a_walk_finds(forest, edge):
    rows = np.array([(a, b, c) for a in range(5) for b in range(3) for c in range(2)])
    score = Score(SIZES, forest, [edge, edge + 300])
    sums = [sum(walked(tree, row) for tree in forest) for row in rows.tolist()]
    np.testing.assert_array_equal(score.encode(rows), np.searchsorted(score.edges, sums, "right"))
    assert domain_from_spec(json.loads(json.dumps(score.spec()))) == score


@pytest.mark.parametrize(
    ("tree", "word"),
    [
        ([], "pre-order"),
        ([[0, 1], 3], "pre-order"),
        ([3, 4], "leaf"),
        ([[0, 1], 3, 4, 5], "leaf"),
        ([[0, 4], 3, 4], "split"),
        ([[3, 0], 3, 4], "split"),
        ([[-1, 0], 3, 4], "split"),
        ([[0, 0.5], 3, 4], "split"),
        ([[0, 1, 2], 3, 4], "split"),
        ([[0, 1], 3, 0.5], "leaf"),
        ([[0, 1], 3, True], "leaf"),
        ([[0, 1], 3, 2**40], "leaf"),
        ([*([[0, 1], 1] * 16), 1], "16"),
        ([3, [0, 1], 4], "leaf"),
        ("tree", "tree"),
    ],
)
def test_what_is_no_tree_of_integers_is_refused(tree, word):
    with pytest.raises(ValueError, match=word):
        Score(SIZES, [tree], [0])


def test_the_rest_of_a_score_is_refused_where_it_does_not_fit():
    tree = [[0, 1], 3, 4]
    for columns, forest, edges in [
        ({}, [tree], [0]),
        ({"a": 0}, [tree], [0]),
        (SIZES, [], [0]),
        (SIZES, [tree], []),
        (SIZES, [tree], [1, 1]),
        (SIZES, [tree], [0.5]),
        (SIZES, [tree], [float("nan")]),
        ("abc", [tree], [0]),
    ]:
        with pytest.raises(ValueError, match=r"Score|size|edge"):
            Score(columns, forest, edges)


def rows_of(number, rng, paired=True):
    """Rows in which the second column follows the first, and both look the same alone."""
    x = rng.normal(size=number)
    place = np.where(x > 0, "north", "south")
    return {"x": x, "place": place if paired else rng.permutation(place)}


@pytest.fixture(scope="module")
def scored():
    table = Table({"x": Binned.uniform(-2, 2, 10), "place": ["north", "south"]})
    public = rows_of(4000, np.random.default_rng(1))
    return Reference.from_frame(table, public, score="dependence")


def test_a_score_sees_what_no_column_does(scored):
    rng = np.random.default_rng(2)
    for paired, least, most in ((True, 0, 0.02), (False, 0.1, 100)):
        rows = scored.domain.encode(rows_of(4000, rng, paired))
        counts = np.bincount(rows.ravel(), minlength=scored.domain.size)
        law = scored.columns["dependence"].probabilities
        moved = np.abs(counts[scored.domain.parts[-1]] / 4000 - law).sum() / 2
        assert least <= moved <= most + 0.02
    assert list(scored.columns) == ["x", "place", "dependence"]


def test_the_law_is_that_of_rows_that_the_trees_did_not_learn_from():
    """Rows of noise: of those that were learned from, the trees remember much."""
    rng = np.random.default_rng(3)
    table = Table({name: Binned.uniform(0, 1, 20) for name in "abcdef"})
    public = {name: rng.random(1000) for name in "abcdef"}
    reference = Reference.from_frame(table, public, score="s")
    law = reference.columns["s"].probabilities

    def distance(rows):
        symbols = reference.domain.encode(rows)[:, -1] - reference.domain.parts[-1].start
        share = np.bincount(symbols, minlength=len(law)) / len(symbols)
        return np.abs(share - law).sum() / 2

    assert distance(public) > 0.15 > distance({name: rng.random(20_000) for name in "abcdef"})
    assert reference.records == 501  # the other half, and one beyond all of them


def test_a_row_changes_its_own_score_and_no_other(scored):
    table = scored.domain
    rows = {"x": [0.5, 0.5, -1.0], "place": ["north", "north", "south"]}
    plain = table.encode(rows)
    for odd in ("south", None, float("nan"), "elsewhere", object(), 10**400):
        changed = table.encode({**rows, "place": ["north", odd, "south"]})
        np.testing.assert_array_equal(changed[[0, 2]], plain[[0, 2]])
        assert table.holds(changed)
    for odd in (float("nan"), float("inf"), None, "x", 1e300):
        changed = table.encode({**rows, "x": [0.5, odd, -1.0]})
        np.testing.assert_array_equal(changed[[0, 2]], plain[[0, 2]])
        assert table.holds(changed)
    assert table.encode({"x": [], "place": []}).shape == (0, 3)


def test_blocks_of_rows_are_scored_as_rows_are(scored):
    rows = rows_of(40_000, np.random.default_rng(4))
    whole = scored.domain.encode(rows)
    for cut in (slice(0, 1), slice(16_383, 16_386), slice(39_999, 40_000)):
        some = scored.domain.encode({name: column[cut] for name, column in rows.items()})
        np.testing.assert_array_equal(some, whole[cut])


def test_everything_in_a_score_is_in_the_fingerprint(scored):
    table = scored.domain
    (score,) = table.scores.values()
    first = next(n for n, tree in enumerate(score.trees) if len(tree) > 1)
    other_leaf = [*score.trees[first][:-1], score.trees[first][-1] + 1]
    swapped = [
        replace(score, trees=[*score.trees[:first], other_leaf, *score.trees[first + 1 :]]),
        replace(score, trees=score.trees[1:]),
        replace(score, edges=[score.edges[0] - 1, *score.edges[1:]]),
    ]
    prints = {replace(table, scores={"dependence": one}).fingerprint for one in swapped}
    prints |= {table.fingerprint, replace(table, scores={}).fingerprint}
    prints |= {replace(table, scores={"renamed": score}).fingerprint}
    assert len(prints) == 6


def test_a_table_without_scores_is_what_it_was():
    table = Table({"sex": ["f", "m"], "hand": ["left", "right"]})
    assert "scores" not in table.spec()
    assert table.fingerprint == "3563943946d2788495f95efc468c77e97402b54c45e4dffbc936184151cd7d82"


def test_a_scored_table_is_stored_and_read(scored, tmp_path):
    table = replace(
        scored.domain, thresholds={"dependence": 0.01, "x": 0.1, "place": 0.1}, by="place"
    )
    assert domain_from_spec(json.loads(json.dumps(table.spec()))) == table
    table.to_toml(tmp_path / "table.toml")
    again = Table.from_toml(tmp_path / "table.toml")
    assert again == table
    assert again.thresholds == table.thresholds
    scored.save(tmp_path / "r.json")
    assert Reference.load(tmp_path / "r.json").fingerprint == scored.fingerprint
    scored.columns["dependence"].save(tmp_path / "column.json")
    assert Reference.load(tmp_path / "column.json").domain == scored.domain.scores["dependence"]


def test_symbols_that_no_column_has_are_the_nearest():
    score = Score(SIZES, [[[0, 1], 3, 4]], [4])
    odd = [[-5, 9, 9], [2**62, -1, 0], [1, 0, 0]]
    np.testing.assert_array_equal(score.encode(odd), [0, 1, 0])
    assert score.encode([]).shape == (0,)
    for records in ([1, 2], [[1, 2]], [[0.5, 1, 1]], [["a", "b", "c"]]):
        with pytest.raises(DomainError, match="3 columns"):
            score.encode(records)


def test_scores_that_do_not_fit_a_table_are_refused(scored):
    score = scored.domain.scores["dependence"]
    labels = Labels(["north", "south"])
    x = scored.domain.features["x"]
    for features, scores, word in [
        ({"x": x, "town": labels}, {"s": score}, "reads 'place'"),
        ({"x": x, "place": Labels(["n"])}, {"s": score}, "reads 'place'"),
        ({"x": x, "place": labels}, {"x": score}, "name"),
        ({"x": x, "place": labels}, {"s": labels}, "Score"),
        ({"x": x, "place": labels}, [score], "Score"),
        ({"x": x, "place": score}, {}, "one feature"),
    ]:
        with pytest.raises(DomainError, match=word):
            Table(features, scores=scores)


def test_rows_that_show_no_dependence_get_no_score():
    table = Table({"a": ["x", "y"], "b": ["x", "y"]})
    with pytest.raises(ValueError, match="public"):
        Reference.from_frame(table, {"a": ["x"] * 100, "b": ["y"] * 100}, score="s")
    with pytest.raises(ValueError, match="rows"):
        Reference.from_frame(table, {"a": ["x"], "b": ["y"]}, score="s")
    with pytest.raises(ValueError, match="two"):
        Reference.from_frame(Table({"a": ["x", "y"]}), {"a": ["x", "y"] * 40}, score="s")
    with pytest.raises(ValueError, match="Table"):
        Reference.from_samples(Labels(["x"]), ["x"] * 100, score="s")


_OTHER = """
import sys, numpy as np
from flwr_kld import Reference
reference = Reference.load(sys.argv[1])
rng = np.random.default_rng(9)
x = rng.normal(size=3000)
rows = {"x": x, "place": np.where(x > 0, "north", "south")}
table = reference.domain
print(table.fingerprint, reference.fingerprint, table.encode(rows)[:, -1].tolist())
"""


def test_another_processor_scores_alike(scored, tmp_path):
    """NumPy without the instructions that it would choose here."""
    scored.save(tmp_path / "r.json")
    core = np._core if hasattr(np, "_core") else np.core  # the latter in NumPy 1
    features = core._multiarray_umath.__cpu_dispatch__
    without = subprocess.check_output(
        [sys.executable, "-c", _OTHER, tmp_path / "r.json"],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(features)}, text=True,
    )  # fmt: skip
    x = np.random.default_rng(9).normal(size=3000)
    symbols = scored.domain.encode({"x": x, "place": np.where(x > 0, "north", "south")})
    plain = [scored.domain.fingerprint, scored.fingerprint, f"{symbols[:, -1].tolist()}\n"]
    assert without.split(" ", 2) == plain


def test_all_that_is_counted_with_is_whole(scored):
    (score,) = scored.domain.scores.values()
    numbers = [n for tree in score.trees for node in tree for n in np.ravel(node).tolist()]
    assert {type(n) for n in [*numbers, *score.edges]} == {int}
    assert score.of(np.array([[0], [0]])).dtype == np.int64
