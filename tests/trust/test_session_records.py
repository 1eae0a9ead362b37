"""What a client counts night after night: lifetimes, whatever its records do."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.kernel.vector import Held
from flwr_kld.trust.session_records import RecordLifetimes

A, B, C, D = (0, 0), (0, 1), (1, 0), (1, 1)


def night(
    lifetimes: RecordLifetimes, records: list[tuple[int, tuple[int, ...]]], moves: int = 2
) -> RecordLifetimes:
    """Another night of (id, symbols), from a file; each id is its record's first symbol, too."""
    ids = np.array([own for own, _ in records], np.uint64)
    columns = of_client(lifetimes).shape[1]
    symbols = np.array([(own, *row) for own, row in records], np.int16)
    lifetimes = RecordLifetimes.of_stored(lifetimes.stored(1), 1, columns)
    symbols = symbols.reshape(len(records), columns)
    return lifetimes.after([0], Held([ids]), Held([symbols]), moves)


def of_client(lifetimes: RecordLifetimes) -> np.ndarray:
    """What the only client counts."""
    return lifetimes.counted([0]).into(list)[0]


def shown(lifetimes: RecordLifetimes) -> dict[int, tuple[int, ...]]:
    """What is counted, by id."""
    rows = of_client(lifetimes).tolist()
    found = {own: tuple(row) for own, *row in rows}
    assert len(found) == len(rows)
    return found


def counted(nights: list, moves: int = 2, columns: int = 2) -> list[dict[int, tuple[int, ...]]]:
    """What is counted on each night."""
    lifetimes, told = RecordLifetimes(1 + columns), []
    for records in nights:
        lifetimes = night(lifetimes, records, moves)
        told.append(shown(lifetimes))
    return told


ATTACKS = {
    "a record that flickers": (
        2,
        [[(1, A), (2, A)], [(2, A)], [(1, A), (2, A)], [(1, B), (2, A)]],
        [{1: A, 2: A}, {2: A}, {2: A}, {2: A}],
    ),
    "a record that changes nightly and may not": (
        2, [[(1, A)], [(1, B)], [(1, C)], [(1, A)]], [{1: A}] * 4,
    ),
    "a record that changes nightly and may twice": (
        6,
        [[(1, A)], [(1, B)], [(1, B)], [(1, C)], [(1, D)], [(1, A)]],
        [{1: A}, {1: B}, {1: B}, {1: C}, {1: C}, {1: C}],
    ),
    "a change of one column takes the others with it": (
        4, [[(1, A)], [(1, B)], [(1, D)]], [{1: A}, {1: B}, {1: B}],
    ),
    "records that swap their values": (
        2, [[(1, A), (2, D)], [(1, D), (2, A)]], [{1: A, 2: D}] * 2,
    ),
    "records that swap their ids": (
        4, [[(1, A), (2, D)], [(2, A), (1, D)]], [{1: A, 2: D}, {1: D, 2: A}],
    ),
    "an id twice in a night": (
        4, [[(1, A), (1, B), (2, C)], [(2, C), (1, A), (1, D)]], [{1: A, 2: C}] * 2,
    ),
    "the same record under many ids": (
        2, [[(1, A)], [(2, A)], [(3, A)], [(1, A)]], [{1: A}, {2: A}, {3: A}, {}],
    ),
    "no records": (2, [[], [(1, A)], [], []], [{}, {1: A}, {}, {}]),
    "all gone, and back": (2, [[(1, A), (2, B)], [], [(1, A), (2, B)]], [{1: A, 2: B}, {}, {}]),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_records_do_is_counted_as_lives(attack):
    moves, nights, expected = ATTACKS[attack]
    assert counted(nights, moves) == expected


class Slow:
    """The rule, a record at a time."""

    def __init__(self, moves: int) -> None:
        self.moves, self.alive, self.dead, self.frozen = moves, {}, set(), set()

    def night(self, records):
        first = {}
        for own, row in records:
            first.setdefault(own, row)
        for own in set(self.alive) - set(first):
            del self.alive[own]
            self.frozen.discard(own)
            self.dead.add(own)
        for own, row in first.items():
            if own in self.dead:
                continue
            rows = self.alive.setdefault(own, [row])
            if rows[-1] != row and len(rows) < self.moves // 2:
                rows.append(row)
            elif rows[-1] != row:
                self.frozen.add(own)
        return {own: rows[-1] for own, rows in self.alive.items()}


ROW = st.tuples(st.integers(0, 2), st.integers(0, 300))
NIGHTS = st.lists(st.lists(st.tuples(st.integers(0, 5), ROW), max_size=8), max_size=8)


@given(NIGHTS, st.sampled_from([2, 4, 6]))
def test_any_nights_are_counted_as_the_rule_says(nights, moves):
    slow = Slow(moves)
    assert counted(nights, moves) == [slow.night(records) for records in nights]


ASKED = st.dictionaries(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 3), ROW), max_size=5))


@given(st.lists(ASKED, max_size=6), st.sampled_from([2, 4]), st.sampled_from([1, -1]))
def test_clients_of_a_node_are_counted_each_by_itself(nights, moves, direction):
    """In any order; those that are not asked, or asked in vain, stay as they are."""
    slow, lifetimes = {client: Slow(moves) for client in range(3)}, RecordLifetimes(2)
    for asked in nights:
        clients = sorted(asked, reverse=direction < 0)
        given = [np.array([own for own, _ in asked[c]], np.uint64) for c in clients]
        rows = [np.array([row for _, row in asked[c]], int).reshape(-1, 2) for c in clients]
        if clients:
            lifetimes = lifetimes.after(clients, Held(given), Held(rows), moves)
        for client in clients:
            slow[client].night(asked[client])
        counted = lifetimes.counted([0, 1, 2]).into(list)
        expected = [sorted(rows[-1] for rows in slow[c].alive.values()) for c in range(3)]
        assert [sorted(map(tuple, own.tolist())) for own in counted] == expected
        frozen = lifetimes.frozen([0, 1, 2], moves).into(list)
        assert frozen == [len(slow[client].frozen) for client in range(3)]
        lifetimes = RecordLifetimes.of_stored(lifetimes.stored(3), 3, 2)


@given(NIGHTS, st.sampled_from([2, 4, 6]))
def test_every_path_is_a_life(nights, moves):
    told = counted(nights, moves)
    for own in range(6):
        path = [rows.get(own) for rows in told]
        jumps = [(a, b) for a, b in zip([None, *path], [*path, None], strict=True) if a != b]
        assert sum(a is None for a, _ in jumps) <= 1
        assert sum(b is None for _, b in jumps) <= 1
        assert sum((a is not None) + (b is not None) for a, b in jumps) <= moves


@given(NIGHTS, st.sampled_from([2, 4, 6]), st.randoms())
def test_presence_alone_decides_who_is_counted(nights, moves, random):
    others = [
        [(own, (random.randrange(3), random.randrange(300))) for own, _ in records]
        for records in nights
    ]
    told, told_of_others = counted(nights, moves), counted(others, moves)
    assert [set(rows) for rows in told] == [set(rows) for rows in told_of_others]


@given(NIGHTS, st.sampled_from([2, 4, 6]), st.integers(0, 5), st.randoms())
def test_no_record_moves_another(nights, moves, changed, random):
    others = [
        [(own, (random.randrange(3), 0) if own == changed else row) for own, row in records]
        for records in nights
    ]
    for rows, rows_of_others in zip(counted(nights, moves), counted(others, moves), strict=True):
        rows.pop(changed, None), rows_of_others.pop(changed, None)
        assert rows == rows_of_others


@pytest.mark.parametrize("largest", [0, 255, 256, 65_535, 65_536, 2**31 - 1])
def test_symbols_of_any_size_are_kept(largest):
    ids, symbols = np.arange(3, dtype=np.uint64), np.array([0, largest, 1], np.int32)
    lifetimes = RecordLifetimes(1).after([0], Held([ids]), Held([symbols]), 2)
    again = RecordLifetimes.of_stored(lifetimes.stored(1), 1, 1)
    assert of_client(again).tolist() == [[0], [largest], [1]]


def test_lives_are_private():
    lifetimes = night(RecordLifetimes(3), [(17, (23, 29))])
    assert repr(lifetimes) == "RecordLifetimes(<private>)"
    assert not {name for name in dir(lifetimes) if not callable(getattr(lifetimes, name))}
    for leak in (copy.copy, pickle.dumps, vars, np.asarray, list):
        with pytest.raises(TypeError) as raised:
            leak(lifetimes)
        assert "17" not in str(raised.value)


def test_of_many_rows_of_one_id_the_first_counts():
    records = [(place % 3, (0, place)) for place in range(1000)]
    assert counted([records]) == [{own: (0, own) for own in range(3)}]
