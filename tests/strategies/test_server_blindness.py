"""Sealed counts are closed to the server that passes them on."""

from itertools import chain

import numpy as np
import pytest
from federation import REFERENCE, SHARES, app_of, basket
from scipy.stats import chi2
from sealed_federation import (
    AGGREGATOR,
    KEY,
    NODES,
    WatchedGrid,
    federation,
    monitor,
)

from flwr_kld.clients import (
    AggregatorKey,
)
from flwr_kld.strategies import (
    KLDrift,
    Trusted,
)
from flwr_kld.trust.sealing import NotOpened, SealContext, open_sealed
from flwr_kld.trust.terms import Terms

ROW = (10, 20, 30, 40, 0, 0)  # nothing other, nothing missing


SUMS = tuple(20 * n for n in ROW)


def appears(vector, handled) -> bool:
    """Whether a vector of integers is written in any usual form in anything handled."""
    array = np.array(vector)
    kinds = ("u1", "i2", "i4", "u4", "i8", "f4", "f8")[max(vector) > 255 :]
    forms = [array.astype(order + kind).tobytes() for kind in kinds for order in "<>"]
    texts = [", ".join(map(str, vector)), ",".join(map(str, vector)), " ".join(map(str, vector))]
    for value in handled:
        if isinstance(value, bytes) and any(form in value for form in forms):
            return True
        if isinstance(value, str) and any(text in value for text in texts):
            return True
    return False


def test_the_search_for_counts_finds_them_where_the_server_is_trusted():
    KLDrift(REFERENCE, Trusted(0.1)).check(grid := WatchedGrid(app_of(), NODES))
    assert appears(ROW, grid.handled())


def test_no_exact_counts_pass_the_server_in_any_usual_form():
    """Noise of scale 20 hits zero in all six cells of a sum with P < 1e-9."""
    monitor(0.1).check(grid := federation())
    assert len(grid.received) == 21 + 20 + 1
    assert not appears(ROW, grid.handled())
    assert not appears(SUMS, grid.handled())


def test_nothing_that_the_server_handles_opens_a_box():
    monitor().check(grid := federation())
    (request,) = grid.requests()
    terms = Terms.from_config(request.content["terms"]).fingerprint
    handled = [v for v in grid.handled() if isinstance(v, bytes)]
    pieces = {v[i : i + 32] for v in handled for i in (0, len(v) - 32) if len(v) >= 32}
    guesses = [AggregatorKey(piece) for piece in pieces | {KEY.public, bytes(32)}]
    for sender, box in list(request.content["numbers"].items())[:5]:
        context = SealContext(grid.run.run_id, terms, sender)
        assert open_sealed(KEY, box, context)[: 4 * len(ROW)] == np.array(ROW, "<i4").tobytes()
        for guess in guesses:
            with pytest.raises(NotOpened):
                open_sealed(guess, box, context)


def test_boxes_tell_nothing_of_the_counts():
    """Uniform bytes, in one length, never twice; the same test tells plain counts apart."""
    boxes = []
    for shares in (SHARES, (1.0, 0, 0, 0), SHARES):
        clients = app_of(lambda c, s=shares: basket(c, shares=s), aggregator=KEY.public)
        grid = federation(clients)
        for _ in range(4):
            monitor(2.0).check(grid)
        boxes.append(grid.boxes())
    everything = list(chain(*boxes))
    assert len(everything) == 3 * 4 * NODES
    assert {len(box) for box in everything} == {28 + 48}
    assert len({box[:32] for box in everything}) == len({box[32:48] for box in everything}) == 240
    assert chi_squared([box[32:] for box in everything]) < chi2.isf(1e-9, 255)
    plain = np.array(ROW, "<i4").tobytes()
    assert chi_squared([plain] * 480) > chi2.isf(1e-9, 255)
    for one, other in ((0, 1), (0, 2)):  # different data, the same data: half of the bits differ
        pairs = zip(boxes[one], boxes[other], strict=True)
        differ = sum(differing_bits(a[32:48], b[32:48]) for a, b in pairs)
        bits = 80 * 128
        assert abs(differ - bits / 2) < 6 * (bits / 4) ** 0.5


def chi_squared(texts) -> float:
    """Of the bytes against uniform: 255 degrees of freedom."""
    seen = np.bincount(np.frombuffer(b"".join(texts), np.uint8), minlength=256)
    expected = seen.sum() / 256
    return float(((seen - expected) ** 2 / expected).sum())


def differing_bits(a: bytes, b: bytes) -> int:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def test_the_size_of_nothing_depends_on_the_data():
    def sizes(shares):
        clients = app_of(lambda c: basket(c, shares=shares), aggregator=KEY.public)
        monitor().check(grid := federation(clients))
        return [
            [len(v) for r in m.content.values() for v in r.values() if hasattr(v, "__len__")]
            for m in (*grid.sent, *grid.received)
            if m.has_content()
            and m.metadata.src_node_id != AGGREGATOR
            and m.metadata.dst_node_id != AGGREGATOR
        ]

    assert sizes(SHARES) == sizes((1.0, 0.0, 0.0, 0.0))
