"""No frame of a handler or of a strategy holds an exact count or a record, at any line of it.

An error tracker, `pytest -l` or a rich traceback records the local variables of every frame that an
error passes. An error may come at any line; so every line is looked at, without any error.
Flower's own containers (messages, and the state in its Context) are Flower's to show.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, Context, Message, RecordDict
from flwr.clientapp import ClientApp

import flwr_kld.clients
import flwr_kld.strategies
from flwr_kld import Labels, Reference
from flwr_kld.clients import (
    AggregatorKey,
    FirstUse,
    aggregate_drift_checks,
    answer_drift_queries,
    answer_predictor_queries,
)
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.privacy import NoiseTable
from flwr_kld.privacy.private import Private
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Adjacency,
    Clip,
    Distributed,
    KLDrift,
    PrivatePredictor,
    Scalar,
    SecureSum,
    Trusted,
    TrustedAggregator,
)

NODES, AGGREGATOR = 4, 1004
KEY = AggregatorKey.generate()
COUNTS = {"511": 733, "547": 911, "563": 1103, "613": 1303, "617": 1511, "691": 1709}
"""Labels that are also their own symbols, and how many records of each a client has."""
RECORDS = [name for name, n in COUNTS.items() for _ in range(n)]
DOMAIN = Labels([str(i) for i in range(700)])
REFERENCE = Reference.from_counts(DOMAIN, [1] * 700)
CELLS = np.array(list(COUNTS.values()))
NUMBERS = {*COUNTS.values(), *(NODES * n for n in COUNTS.values()), len(RECORDS)}
"""A client's counts, the cohort's, and how many records a client has."""
LABELS = {int(name) for name in COUNTS}
NOT_LOOKED_INTO = (Private, NoiseTable, Array, Context, Message, RecordDict)


def shows(value: object, numbers: set[int], deep: int = 3) -> bool:
    """Whether a variable holds exact counts, one of `numbers`, or records, in any usual form."""
    if isinstance(value, NOT_LOOKED_INTO):
        return False
    if isinstance(value, np.ndarray):
        if len(RECORDS) in value.shape:
            return True
        rows = (CELLS, NODES * CELLS) if value.dtype.kind in "iuf" else ()
        return any(np.isin(row, value).all() for row in rows)
    if isinstance(value, int | np.integer):
        return int(value) in numbers
    if isinstance(value, bytes):
        return all(np.array([n], "<i4").tobytes() in value for n in CELLS)
    if isinstance(value, list | tuple | set) and len(value) == len(RECORDS):
        return True
    if not deep:
        return False
    inside: list[object] = []
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set):
        inside = list(value)
        if set(CELLS.tolist()) <= {n for n in inside if isinstance(n, int)}:
            return True
    elif type(value).__module__.startswith("flwr_kld"):
        inside = list(getattr(value, "__dict__", {}).values())
    return any(shows(v, set(), deep - 1) for v in inside[:50])


def seen_in_frames(work, *folders: Path) -> set[str]:
    """Run `work`; return which variables of which functions in `folders` showed something."""
    found, looked_at = set(), {}

    def look(frame, event, argument):
        code = frame.f_code
        numbers = NUMBERS | LABELS if "clients" in code.co_filename else NUMBERS
        for name, value in frame.f_locals.items():
            place = (frame, name)
            if looked_at.get(place) is value and not isinstance(value, list | dict | set):
                continue
            looked_at[place] = value
            if shows(value, numbers):
                found.add(f"{Path(code.co_filename).name}:{code.co_qualname} {name}")
        return look

    def enter(frame, event, argument):
        return look if Path(frame.f_code.co_filename).parent in folders else None

    work()  # calibrates noise, which is kept: slow if every line of it is looked at
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


OWN = [Path(module.__file__).resolve().parent for module in (flwr_kld.clients, flwr_kld.strategies)]


def load(context: Context) -> list[str]:
    records = list(RECORDS)
    return records


def grid() -> InProcessGrid:
    app, server = ClientApp(), ClientApp()
    answer_drift_queries(app, load, DOMAIN, secure_sum=FirstUse(), aggregator=KEY.public)
    answer_predictor_queries(app, load, DOMAIN)
    aggregate_drift_checks(server, key=KEY)
    return InProcessGrid(lambda m, c: (server if c.node_id == AGGREGATOR else app)(m, c), NODES + 1)


def people() -> InProcessGrid:
    """Nodes without an aggregator."""
    made = grid()
    del made._contexts[AGGREGATOR]
    return made


EPSILON = 0.1
"""All six noised counts are the exact ones in one run of 10^9: each with probability 0.025."""
SHARES = {"min_survivors": NODES}
ADD_REMOVE = {"adjacency": Adjacency.ADD_REMOVE}
CHECKS = {
    "plain counts": KLDrift(REFERENCE, Trusted(EPSILON)).check,
    "plain scalar": KLDrift(REFERENCE, Trusted(EPSILON, release=Scalar())).check,
    "clipped": KLDrift(REFERENCE, Trusted(20.0, clip=9999, **ADD_REMOVE)).check,
    "sum": KLDrift(REFERENCE, Trusted(EPSILON), aggregation=SecureSum()).check,
    "shares": KLDrift(REFERENCE, Distributed(EPSILON, **SHARES), aggregation=SecureSum()).check,
    "clipped shares": KLDrift(
        REFERENCE, Distributed(5.0, **SHARES, clip=Clip(50)), aggregation=SecureSum()
    ).check,
    "predictor": PrivatePredictor(
        BayesMixture(Hypotheses({"a": REFERENCE, "b": REFERENCE}), epsilon=1.0)
    ).ask,
}


@pytest.mark.parametrize("name", CHECKS)
def test_no_frame_of_a_check_holds_what_is_private(name):
    nodes = people()
    assert not seen_in_frames(lambda: CHECKS[name](nodes), *OWN)


@pytest.mark.parametrize("release", ["counts", Scalar()])
def test_no_frame_of_a_check_through_an_aggregator_does(release):
    trust = TrustedAggregator(EPSILON, aggregator=KEY.public, release=release)
    assert not seen_in_frames(lambda: KLDrift(REFERENCE, trust).check(grid()), *OWN)


def test_the_search_finds_what_is_there():
    here = Path(__file__).resolve().parent
    nodes = people()
    found = seen_in_frames(lambda: CHECKS["plain counts"](nodes), here)
    assert "test_frames.py:load records" in found
    wire = CELLS.astype("<i4").tobytes()
    for hidden in (CELLS, CELLS[0], [CELLS], {"x": (1, CELLS)}, CELLS.tolist(), wire, RECORDS):
        assert shows(hidden, NUMBERS)
    assert not shows(DOMAIN, NUMBERS)
