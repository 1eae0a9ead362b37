"""No frame of a handler or of a strategy holds an exact count or a record, at any line of it.

An error tracker, `pytest -l` or a rich traceback records the local variables of every frame that an
error passes. An error may come at any line; so every line is looked at, without any error.
Flower's own containers (messages, and the state in its Context) are Flower's to show.
"""

import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from split_federation import KEYS, PAIR, Members, aggregators

import flwr_kld.clients
import flwr_kld.strategies
from flwr_kld import Labels, Reference, Table
from flwr_kld.clients import (
    AggregatorKey,
    answer_drift_queries,
    answer_predictor_queries,
)
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.vector import Private
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    LabelDiscovery,
    PrivatePredictor,
    SecureSum,
    Standing,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
    WholeClients,
)

NODES, AGGREGATOR = 3, 1003
KEY = AggregatorKey.generate()
COUNTS = {"511": 2733, "547": 2917, "563": 3109, "613": 3307, "617": 3511, "691": 3709}
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

    inside = cache(lambda file: Path(file).parent in folders)

    def enter(frame, event, argument):
        return look if inside(frame.f_code.co_filename) else None

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
    app, servers = ClientApp(), aggregators((KEY, *KEYS))
    answer_drift_queries(
        app, load, DOMAIN, record_ids=lambda _: list(range(len(RECORDS))),
        secure_sum=Members(), aggregator=KEY.public, aggregators=PAIR,
    )  # fmt: skip
    answer_predictor_queries(app, load, DOMAIN)

    def dispatch(message, context):
        place = context.node_id - AGGREGATOR
        return (app if place < 0 else servers[place])(message, context)

    return InProcessGrid(dispatch, NODES + 1 + len(KEYS))


def people() -> InProcessGrid:
    """Nodes without an aggregator."""
    made = grid()
    for place in range(1 + len(KEYS)):
        del made.contexts[AGGREGATOR + place]
    return made


EPSILON = 0.1
"""All six noised counts are the exact ones in one run of 10^9: each with probability 0.025. The
noise of nights is as wide at seven times as much."""
SHARES = {"min_clients": NODES}
CHECKS = {
    "plain counts": lambda: KLDrift(REFERENCE, Trusted(EPSILON)),
    "whole clients": lambda: KLDrift(REFERENCE, Trusted(20.0, protects=WholeClients(9999))),
    "sum": lambda: KLDrift(REFERENCE, Trusted(EPSILON), aggregation=SecureSum()),
    "shares": lambda: KLDrift(REFERENCE, Distributed(EPSILON, **SHARES), aggregation=SecureSum()),
    "shares for whole clients": lambda: KLDrift(
        REFERENCE, Distributed(5.0, **SHARES, protects=WholeClients(50)), aggregation=SecureSum()
    ),
    "night": lambda: KLDrift(REFERENCE, Standing(Trusted(7 * EPSILON, 1e-6), 9)),
    "predictor": lambda: PrivatePredictor(
        BayesMixture(Hypotheses({"a": REFERENCE, "b": REFERENCE}), epsilon=1.0)
    ),
}


SEALED = {
    "sealed counts": TrustedAggregator(EPSILON, aggregator=KEY.public),
    "split counts": TwoAggregators(EPSILON, aggregators=PAIR),
}
"""Of checks through aggregators."""


def check_of(name):
    if name in SEALED:
        return KLDrift(REFERENCE, SEALED[name]).check
    return CHECKS[name]().run_round


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Where clients and server keep what they remember of a session."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", CHECKS)
def test_no_frame_of_a_check_holds_what_is_private(name):
    nodes, check = people(), check_of(name)
    assert not seen_in_frames(lambda: check(nodes), *OWN)


@pytest.mark.parametrize("name", SEALED)
def test_no_frame_of_a_check_through_an_aggregator_does(name):
    check = check_of(name)
    assert not seen_in_frames(lambda: check(grid()), *OWN)


def test_no_frame_of_a_client_that_tells_labels_holds_them():
    """Nor their numbers. What the server shows of them is public."""
    app, table = ClientApp(), Table({"job": ["nurse"]})
    answer_drift_queries(app, lambda _: {"job": list(RECORDS)}, table, discover={"job"})
    ask = LabelDiscovery(table, "job", Trusted(EPSILON, 1e-6)).ask
    assert not seen_in_frames(lambda: ask(InProcessGrid(app, NODES)), OWN[0])


COUNTING, SUMMING = "flwr_kld.kernel.vector", "flwr_kld.secure_sums"
STEPS = [
    *(f"flwr_kld.table.labels.Labels.{name}" for name in ("encode", "holds")),
    *(f"flwr_kld.clients.own_records.Records.{name}" for name in ("sample", "counted", "label")),
    "flwr_kld.clients.own_records.record_ids",
    *(f"{COUNTING}.{name}" for name in ("sample", "from_ring", "to_counts")),
    *(f"{COUNTING}.ClientRows.{name}" for name in ("count", "to_wire", "summand")),
    *(f"{COUNTING}.ClearSum.{name}" for name in ("of_answers", "_take", "is_empty", "release")),
    f"{COUNTING}.ShareSum.release",
    f"{COUNTING}.SumVector.masked",
    f"{SUMMING}.client.SumClient.mask",
    *(f"{COUNTING}.{name}" for name in ("apply_masks", "seal")),
    f"{COUNTING}.PartialSum.answer",
    *(f"{SUMMING}.client.ClientState.{name}" for name in ("masked", "next")),
    *(f"{SUMMING}.{name}" for name in ("session.Seat.signed", "keys.mask_key")),
    "flwr_kld.clients.aggregator.open_sealed",
    "flwr_kld.clients.channels.split",
    "flwr_kld.trust.sealing.SealContext.to_bytes",
    *(f"flwr_kld.secure_sums.split_sum.{name}" for name in ("seal", "_Head.signed_text")),
    *(
        f"flwr_kld.trust.session_records.RecordLifetimes.{name}"
        for name in ("after", "stored", "of_stored")
    ),
    "flwr_kld.secure_sums.split_sum.open_sealed",
]
"""Of counting, noising, sealing, masking, adding up and releasing."""
PUBLIC = ("split_sum.py:split records", "split_sum.py:_prio3 records")
"""How many records a client has goes to two aggregators in the clear."""
PACKAGE = Path(flwr_kld.__file__).parent


@pytest.mark.parametrize("name", [*CHECKS, *SEALED])
def test_no_frame_of_the_package_holds_it_where_a_step_may_fail(name, monkeypatch):
    """Whatever a step raises, a traceback has these frames: the package's own, all of them."""
    taken, shown = set(), set()

    def looking(step, take):
        def look(*given, **options):
            frame = None if step in taken else sys._getframe(1)  # one client is like another
            taken.add(step)
            while frame is not None:
                code = frame.f_code
                file = Path(code.co_filename)
                if file.is_relative_to(PACKAGE) or file.parent in OWN:
                    numbers = NUMBERS | LABELS if file.parent == OWN[0] else NUMBERS
                    shown.update(
                        f"{step}: {file.name}:{code.co_qualname} {local}"
                        for local, value in frame.f_locals.items()
                        if shows(value, numbers)
                    )
                frame = frame.f_back
            return take(*given, **options)

        return look

    for step in STEPS:
        monkeypatch.setattr(step, looking(step, pkgutil.resolve_name(step)))
    check_of(name)(grid() if name in SEALED else people())
    assert not {one for one in shown if not one.endswith(PUBLIC)}
    assert len(taken) >= (3 if name == "predictor" else 9), taken


def test_the_search_finds_what_is_there():
    here = Path(__file__).resolve().parent
    nodes, check = people(), check_of("plain counts")
    found = seen_in_frames(lambda: check(nodes), here)
    assert "test_frames.py:load records" in found
    wire = CELLS.astype("<i4").tobytes()
    for hidden in (CELLS, CELLS[0], [CELLS], {"x": (1, CELLS)}, CELLS.tolist(), wire, RECORDS):
        assert shows(hidden, NUMBERS)
    assert not shows(DOMAIN, NUMBERS)
