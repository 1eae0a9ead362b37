"""A plan on the wire: small, exact, and refused when it is not what it says."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered

from flwr_kld.kernel.promise import Allotment
from flwr_kld.query.partition import Partition
from flwr_kld.query.period import Period
from flwr_kld.query.plan import cells_from_wire
from flwr_kld.reference import Reference

REFERENCE = Reference.from_counts(Numbered(40), np.arange(40))
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))


def read(wire=PLAN.wire, size=40, cells=PLAN.cells):
    return cells_from_wire(wire, (size,), (cells,))


def packed(cell_of) -> bytes:
    return zlib.compress(np.asarray(cell_of, dtype="<i4").tobytes())


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=200).filter(any),
    st.sampled_from([Partition(16), Partition(50)]),
    st.integers(0, 2**32),
)
def test_cells_survive_the_wire(counts, recipe, seed):
    reference = Reference.from_counts(Numbered(len(counts)), counts)
    plan = recipe.draw(reference, np.random.default_rng(seed))
    received = cells_from_wire(plan.wire, (len(counts),), (plan.cells,))
    assert received.tolist() == plan.cell_of.tolist()
    assert received.dtype == np.int32


def test_received_cells_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        read()[0] = 1


def test_a_damaged_wire_is_refused_or_read_unharmed():
    for place in range(len(PLAN.wire)):
        damaged = bytearray(PLAN.wire)
        damaged[place] ^= 0x55
        try:
            assert read(bytes(damaged)).tolist() == PLAN.cell_of.tolist()
        except ValueError as error:
            assert "the query plan" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        packed(PLAN.cell_of[:-1]),
        packed([*PLAN.cell_of, 0]),
        zlib.compress(PLAN.cell_of.astype("<i4").tobytes() + b"\0"),
        zlib.compress(bytes(50_000_000)),
        PLAN.wire[: len(PLAN.wire) // 2],
    ],
    ids=["empty", "too short", "too long", "a byte too long", "bomb", "cut off"],
)
def test_cells_for_another_domain(wire):
    with pytest.raises(ValueError, match="does not assign a cell to each symbol"):
        read(wire)


def test_a_bomb_is_never_inflated(monkeypatch):
    """Not one byte more than the domain holds is asked of zlib."""
    asked = []
    real = zlib.decompressobj

    class Watched:
        def __init__(self):
            self.inflater = real()

        def decompress(self, wire, most):
            asked.append(most)
            raw = self.inflater.decompress(wire, most)
            assert len(raw) <= 160
            return raw

        @property
        def eof(self):
            return self.inflater.eof

    monkeypatch.setattr("flwr_kld.query.plan.zlib.decompressobj", Watched)
    with pytest.raises(ValueError, match="does not assign a cell"):
        read(zlib.compress(bytes(1_000_000)))
    assert asked == [160]


@pytest.mark.parametrize("cell", [-1, PLAN.cells, 2**31 - 1])
def test_a_cell_that_does_not_exist(cell):
    cell_of = PLAN.cell_of.copy()
    cell_of[7] = cell
    with pytest.raises(ValueError, match="names a cell that it does not have"):
        read(packed(cell_of))


def test_the_cells_of_each_column_are_those_that_are_named():
    """As many in all, but shared out otherwise: the totals of columns would be compared wrongly."""
    cell_of = np.array([0, 1, 2, 3, 4, 4], dtype=np.int32)
    assert cells_from_wire(packed(cell_of), (3, 3), (3, 2)).tolist() == cell_of.tolist()
    with pytest.raises(ValueError, match="another number of cells in a column"):
        cells_from_wire(packed(cell_of), (3, 3), (2, 3))


def test_the_steps_of_counts_are_in_the_fingerprint():
    told = {PLAN.allotted(Allotment((n,), a)).fingerprint for n in (1, 3) for a in (0, 1)}
    assert len(told) == 4


def test_more_cells_than_symbols():
    with pytest.raises(ValueError, match="more cells than the domain has symbols"):
        read(cells=10**12)


def test_the_fingerprint_covers_the_period():
    days = [PLAN.of(Period("visited", "2026-11-24", f"2026-11-{end}")) for end in (25, 26)]
    assert len({PLAN.fingerprint, *(day.fingerprint for day in days)}) == 3
