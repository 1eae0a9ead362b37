"""Scores on the wire: four bytes a cell at most, exact, and refused when they are malformed."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.kernel.count import LARGEST_SCORE, LARGEST_SUM, MOST_RECORDS, Scores
from flwr_kld.query.score_wire import NO_SCORES, most_records_of, scores_from_wire, scores_to_wire

TWO = (Scores((3, -2), (-51, 973), 200, 100), Scores((1,), (0,), 7, 100))
KNOWN = bytes.fromhex(
    "64000000" "00" "0200000001000000" "c8000000000000000700000000000000"
    "0300feff0100" "cdffcd030000"
)  # fmt: skip
score = st.integers(-LARGEST_SCORE, LARGEST_SCORE)


@st.composite
def asked(draw):
    """Return the scores of a table's columns."""
    most = draw(st.integers(1, MOST_RECORDS))

    def column():
        cells = draw(st.lists(st.tuples(score, score), min_size=1, max_size=30))
        return Scores(*zip(*cells, strict=True), draw(st.integers(0, LARGEST_SUM)), most)

    return tuple(column() for _ in range(draw(st.integers(1, 4))))


@given(asked())
def test_scores_are_read_as_they_were_written(scores):
    cells = sum(each.cells for each in scores)
    wire = scores_to_wire(scores)
    assert len(wire) <= 5 + 12 * len(scores) + 4 * cells
    assert most_records_of(wire) == scores[0].most_records
    assert scores_from_wire(wire, len(scores), cells) == scores


def test_known_bytes_have_a_known_meaning():
    assert scores_from_wire(KNOWN, 2, 3) == TWO
    deflated = scores_to_wire(TWO)
    assert deflated[:5] == KNOWN[:4] + b"\1"
    assert zlib.decompress(deflated[5:]) == KNOWN[5:]
    assert scores_to_wire(None) == NO_SCORES
    assert scores_from_wire(NO_SCORES, 2, 3) is None


def head(deflated):
    return struct.pack("<IB", 100, deflated)


def body(sizes=(2, 1), ceilings=(200, 7), scores=(3, -2, 1, -51, 973, 0)):
    parts = zip((sizes, ceilings, scores), ("<u4", "<i8", "<i2"), strict=True)
    return b"".join(np.array(numbers, kind).tobytes() for numbers, kind in parts)


LONG = zlib.compress(bytes(10_000_000))
MALFORMED = {
    "nothing": b"",
    "a head alone": head(0),
    "half a head": head(0)[:3],
    "neither plain nor deflated": head(2) + body(),
    "cut off": head(0) + body()[:-1],
    "a byte more": head(0) + body() + b"\0",
    "fewer cells": head(0) + body(sizes=(1, 1)),
    "a column without cells": head(0) + body(sizes=(3, 0)),
    "more cells than 32 bits count": head(0) + body(sizes=(4, 2**32 - 1)),
    "a negative ceiling": head(0) + body(ceilings=(-1, 7)),
    "a ceiling beyond all sums": head(0) + body(ceilings=(LARGEST_SUM + 1, 7)),
    "a score beyond the range": head(0) + body(scores=(-(2**15), 0, 0, 0, 0, 0)),
    "a bomb": head(1) + LONG,
    "deflated without need": head(1) + zlib.compress(body(), 0),
    "not deflated": head(1) + body(),
    "a deflated half": head(1) + zlib.compress(bytes(36))[:-5],
    "more behind it": head(1) + zlib.compress(body(scores=[0] * 6)) + b"\0",
    "no records": struct.pack("<IB", 0, 0) + body(),
    "too many records": struct.pack("<IB", MOST_RECORDS + 1, 0) + body(),
}


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=list(MALFORMED))
def test_other_bytes_are_refused(wire):
    with pytest.raises(ValueError, match=r"scores?|ceiling|most_records|divergence"):
        scores_from_wire(wire, 2, 3)


@pytest.mark.parametrize(("columns", "cells"), [(1, 3), (3, 3), (2, 2), (2, 4), (2, 2**24)])
def test_scores_of_other_cells_are_refused(columns, cells):
    with pytest.raises(ValueError, match="does not score each cell of each column"):
        scores_from_wire(KNOWN, columns, cells)


def test_a_bomb_is_not_inflated():
    tracemalloc.start()
    with pytest.raises(ValueError, match="not readable"):
        scores_from_wire(head(1) + LONG + b"\0", 2, 3)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
