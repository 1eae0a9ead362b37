"""A plan on the wire: small, exact, and refused when it is not what it says."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered

from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import cells_from_wire, each_symbol, plan_fingerprint
from flwr_kld.reference import Reference
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

REFERENCE = Reference.from_counts(Numbered(40), np.arange(40))
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))


def read(wire=PLAN.wire, cells=PLAN.cells, fingerprint=PLAN.fingerprint):
    return cells_from_wire(wire, REFERENCE.domain, (cells,), fingerprint)


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
    received = cells_from_wire(plan.wire, reference.domain, (plan.cells,), plan.fingerprint)
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
    with pytest.raises(ValueError, match="symbol"):
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

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with pytest.raises(ValueError, match="cell"):
        read(zlib.compress(bytes(1_000_000)))
    assert asked == [160]


@pytest.mark.parametrize("cell", [-1, PLAN.cells, 2**31 - 1])
def test_a_cell_that_does_not_exist(cell):
    cell_of = PLAN.cell_of.copy()
    cell_of[7] = cell
    with pytest.raises(ValueError, match="cell"):
        read(packed(cell_of))


def test_the_cells_of_each_column_are_those_that_are_named():
    """As many in all, but shared out otherwise: the totals of columns would be compared wrongly."""
    table = Table({"a": Labels(["x"]), "b": Labels(["y"])})
    cell_of = np.array([0, 1, 2, 3, 4, 4], dtype=np.int32)
    fingerprint = plan_fingerprint(table.fingerprint, cell_of)

    def read_columns(cells):
        return cells_from_wire(packed(cell_of), table, cells, fingerprint)

    assert read_columns((3, 2)).tolist() == cell_of.tolist()
    with pytest.raises(ValueError, match="cells"):
        read_columns((2, 3))


def test_more_cells_than_symbols():
    with pytest.raises(ValueError, match="symbols"):
        read(cells=10**12)


def test_another_plan_or_domain_does_not_match_the_fingerprint():
    cell_of = PLAN.cell_of.copy()
    cell_of[3], cell_of[30] = cell_of[30], cell_of[3]
    with pytest.raises(ValueError, match="fingerprint"):
        read(packed(cell_of))
    with pytest.raises(ValueError, match="fingerprint"):
        cells_from_wire(
            PLAN.wire, Labels([str(n) for n in range(38)]), (PLAN.cells,), PLAN.fingerprint
        )


@given(st.permutations(range(40)), st.integers(0, 2**32))
def test_a_fingerprint_is_of_what_is_counted_together(order, seed):
    """Not of the order of cells, nor of the reference; moving one symbol gives another."""
    domain, cells = REFERENCE.domain.fingerprint, PLAN.cell_of
    renamed = np.array(order, np.int32)[cells]
    assert plan_fingerprint(domain, renamed) == PLAN.fingerprint
    moved, symbol = cells.copy(), seed % 40
    moved[symbol] = (cells[symbol] + 1 + seed // 40 % (PLAN.cells - 1)) % PLAN.cells
    alone = np.count_nonzero(cells == cells[symbol]) == 1
    emptied = alone and np.count_nonzero(cells == moved[symbol]) == 0
    assert emptied or plan_fingerprint(domain, moved) != PLAN.fingerprint
    uniform = Reference.from_counts(Numbered(40), np.ones(40))
    weighted = Reference.from_counts(Numbered(40), np.arange(1, 41))
    generator = np.random.default_rng(seed)
    plans = {Partition(50).draw(one, generator).fingerprint for one in (uniform, weighted)}
    assert plans == {each_symbol(Numbered(40)).fingerprint}
