"""Unlisted labels: what is shown of them, enumerated, keeps (ε, δ) exactly."""

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest
from rows import values_of

from flwr_kld.kernel import Guarantee, selection
from flwr_kld.kernel.law import TOTAL, SeededBits, SystemBits
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.release import NotPrivateEnough, Release
from flwr_kld.kernel.selection import LONGEST, MOST_COUNTED, ClientLabels, LabelSum
from flwr_kld.kernel.vector import Held
from flwr_kld.trust.calibration import calibrated_gaussian, least_noise, selection_release
from flwr_kld.trust.noise_laws import truncated_laplace
from flwr_kld.trust.sealing import AggregatorKey, SealContext, open_sealed

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0)


def release_of(epsilon: float, delta: float = DELTA) -> Release:
    return selection_release(Guarantee(epsilon, delta))


def wire(*told: tuple[bytes, int]) -> bytes:
    """A row that says so, whether an honest client could or not."""
    return b"".join(n.to_bytes(4, "little") + text.ljust(LONGEST, b"\0") for text, n in told)


def summed(*rows: bytes) -> LabelSum:
    return LabelSum([([str(i)], Held([row])) for i, row in enumerate(rows)])


def exp_below(epsilon: float) -> Fraction:
    """A rational below e**epsilon, by its series."""
    x = Fraction(epsilon)
    return sum((x**k / factorial(k) for k in range(60)), Fraction(0))


def law(release: Release, records: int, monkeypatch: pytest.MonkeyPatch) -> Counter[int | None]:
    """What is shown of a label of so many records, and its weight of 2**128; None for nothing.

    By the code itself, with one draw of the noise after the other.
    """
    table, weights = release.table, Counter[int | None]()
    total = summed(wire((b"baker", records)) if records else b"")
    for z, weight in zip(range(-table.reach, table.reach + 1), table.weights, strict=True):
        monkeypatch.setattr(selection, "sample", lambda _, n, bits, z=z: np.full(n, z))
        shown = total.release(release, SystemBits())
        assert shown.labels in ((), ("baker",))
        weights[int(shown.values[0]) if shown.labels else None] += weight
    return weights


@pytest.fixture
def laws(monkeypatch):
    """The laws of all numbers of records up to where a label is always shown."""

    def all_of(release: Release) -> list[Counter[int | None]]:
        return [law(release, n, monkeypatch) for n in range(2 * release.table.reach + 3)]

    return all_of


def delta_of(p: dict, q: dict, ratio: Fraction) -> Fraction:
    """Sum of what p exceeds `ratio` times q by, over all outcomes; weights of any total."""
    up, down = ratio.numerator, ratio.denominator
    return Fraction(sum(max(0, w * down - q.get(o, 0) * up) for o, w in p.items()), down)


def both(one: Counter, other: Counter) -> dict:
    return {(a, b): v * w for (a, v), (b, w) in product(one.items(), other.items())}


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_record_that_changes_its_label_is_hidden_exactly(epsilon, laws):
    """One label loses it, of n records, and another gains it, of m others; exactly at the ends."""
    release, ratio = release_of(epsilon), exp_below(epsilon)
    found, reach = laws(release), release.table.reach
    ends = {1, 2, reach, reach + 1, reach + 2, 2 * reach, 2 * reach + 1}
    worst = max(
        delta_of(both(found[n], found[m - 1]), both(found[n - 1], found[m]), ratio)
        for n, m in product(ends, ends)
    )
    worst /= TOTAL**2
    assert worst <= Fraction(DELTA)
    assert 0 <= release.delta_at(epsilon) - worst <= Fraction(2e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_pair_of_labels_is_worse_than_those_at_the_ends(epsilon, laws):
    """All pairs, in floats: a hair is left to delta."""
    release = release_of(epsilon)
    found = laws(release)
    outcomes = sorted({o for each in found for o in each if o is not None})
    p = np.array([[each.get(o, 0) / TOTAL for o in (None, *outcomes)] for each in found])
    with_one, without = p[1:], p[:-1]
    for n in range(len(with_one)):
        before = with_one[n][:, None] * without[:, None, :]
        after = without[n][:, None] * with_one[:, None, :]
        loss = np.maximum(before - np.exp(epsilon) * after, 0).sum(axis=(1, 2))
        assert loss.max() < DELTA * (1 - 1e-3)


@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS, 8.0])
def test_less_reach_or_a_smaller_scale_keeps_no_promise(epsilon):
    release = release_of(epsilon)
    reach, scale = release.table.reach, len(release.moves) / epsilon
    for table in (truncated_laplace(scale, reach - 1), truncated_laplace(0.98 * scale, reach)):
        with pytest.raises(NotPrivateEnough):
            replace(release, table=table)


@pytest.mark.parametrize("delta", [0.0, 1e-40])
def test_no_noise_serves_a_delta_that_is_too_small(delta):
    with pytest.raises(ValueError, match="delta"):
        selection_release(Guarantee(1.0, delta))


ONE = Guarantee(1.0, DELTA)
NOT_FOR_LABELS = {
    "noise that does not end": least_noise(Guarantee(1.0)),
    "noise for one count, of records that change": replace(selection_release(ONE), moves=(1,)),
    "whole clients": replace(
        selection_release(ONE), guarantee=replace(ONE, protects=WholeClients(1))
    ),
}  # fmt: skip


@pytest.mark.parametrize("release", NOT_FOR_LABELS.values(), ids=NOT_FOR_LABELS)
def test_a_release_of_something_else_shows_nothing(release):
    with pytest.raises(ValueError, match="labels"):
        summed(wire((b"baker", 10**6))).release(release, SystemBits())


def test_any_noise_that_ends_will_do():
    release = calibrated_gaussian(ONE)
    assert summed(wire((b"baker", 10**6))).release(release, SystemBits()).labels == ("baker",)


def test_what_is_shown_is_public_in_order_and_says_whether_its_noise_is():
    total = summed(wire((b"a", 900), (b"b", 5000), (b"c", 1)), wire((b"a", 100)))
    shown = total.release(selection_release(ONE), SystemBits())
    assert shown.labels == ("b", "a")
    assert np.abs(shown.values - [5000, 1000]).max() <= 14
    assert (shown.clients, shown.records, shown.private) == (2, None, True)
    assert not total.release(selection_release(ONE), SeededBits(1)).private
    with pytest.raises(TypeError, match="SystemBits"):
        total.release(selection_release(ONE), object())


# ------------------------------------------------------------------------------ what clients tell


def texts_of(*texts: bytes) -> np.ndarray:
    return np.array(texts, f"S{LONGEST}").view(np.int64).reshape(len(texts), -1)


def test_an_honest_row_is_read_as_it_was_meant():
    """Whatever its texts: of forty bytes, with zeros inside, of many bytes a letter."""
    told = [b"x" * 40, b"a\0b", b"a", "看護師".encode(), b"\n", b"a", "\U0010ffff".encode() * 10]
    rows = ClientLabels([texts_of(*told, b"", b""), texts_of(b""), np.zeros((0, 5), np.int64)])
    total = summed(*(rows.to_wire(client) for client in range(3)))
    assert values_of(total) == Counter(told)
    assert (total.clients, total.refused) == (3, {})
    assert rows.to_wire(1) == rows.to_wire(2) == b""


def test_a_box_is_as_long_as_its_client_has_records_and_holds_the_same():
    key, place = AggregatorKey.generate(), SealContext(1, "terms", "a:0")
    for texts in ([b"a"] * 9, [b"%d" % i for i in range(9)], [b""] * 9):
        box = ClientLabels([texts_of(*texts)]).sealed(0, key.public, place.to_bytes())
        held = open_sealed(key, box, place)
        assert len(held) == 9 * len(wire((b"a", 1)))
        assert values_of(summed(held)) == Counter(text for text in texts if text)


BAD = {
    "a byte too many": wire((b"a", 1)) + b"\0",
    "half a label": wire((b"a", 1))[:20],
    "a label twice": wire((b"a", 1), (b"a", 2)),
    "labels out of order": wire((b"b", 1), (b"a", 2)),
    "no text": wire((b"", 1)),
    "no text, behind one": wire((b"a", 1), (b"", 1)),
    "no records": wire((b"a", 0)),
    "a negative number of records": wire((b"a", 2**32 - 5)),
    "more records than a client tells of": wire((b"a", MOST_COUNTED), (b"b", 1)),
    "numbers that wrap": wire((b"a", 2**31), (b"b", 2**31)),
    "no UTF-8": wire((b"\xff", 1)),
    "half a letter": wire(("é".encode()[:1], 1)),
    "half a letter at the end, its other half in the next": wire(
        (b"x" * 39 + "é".encode()[:1], 1), ("é".encode()[1:], 1)
    ),
    "a surrogate": wire((b"\xed\xa0\x80", 1)),
}


@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_what_no_honest_client_tells_is_left_out_and_quoted_nowhere(row):
    total = summed(wire((b"a", 7)), row)
    assert values_of(total) == {b"a": 7}
    assert (total.clients, list(total.refused)) == (1, ["1"])
    assert not {"5", "7"} & set(total.refused["1"].replace("16,777,216", ""))


def test_as_many_records_as_a_client_may_tell_of_count():
    assert summed(wire((b"a", MOST_COUNTED))).clients == 1


def test_the_sampled_law_is_the_table():
    """A label of one record too few is shown as often as the table says: 4,000 of them."""
    release = release_of(2.0)
    told = defaultdict(int, {f"{i:04d}".encode(): release.table.reach for i in range(4000)})
    shown = summed(wire(*told.items())).release(release, SeededBits(5))
    chance = sum(release.table.weights[release.table.reach + 1 :]) / TOTAL
    assert abs(len(shown.labels) - 4000 * chance) < 6 * (4000 * chance) ** 0.5
