"""Ways round the kernel: each fails when it is run, or is found in the source by a search."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import answered, clear_of, rows_of

import flwr_kld
from flwr_kld.kernel import Guarantee, Release
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.law import TOTAL, NoiseTable, SystemBits
from flwr_kld.kernel.promise import Allotment, Ball, WholeClients
from flwr_kld.kernel.release import NotPrivateEnough
from flwr_kld.kernel.selection import LONGEST, ClientLabels, LabelSum
from flwr_kld.kernel.vector import (
    ClearSum,
    ClientRows,
    Held,
    Layout,
    NightNoise,
    PartialSum,
    RingSum,
    ShareSum,
    SumVector,
)
from flwr_kld.trust.calibration import (
    calibrate_shares,
    calibrated_laplace,
    least_noise,
    selection_release,
)

ROOT = Path(flwr_kld.__file__).parents[1]
KERNEL = ROOT / "flwr_kld/kernel"
LAYOUT = Layout((3,))
ALIKE = Layout((1,), Allotment((1,), 1))
EVENT = calibrated_laplace(Guarantee(1.0))
SELECTION = selection_release(Guarantee(1.0, 1e-6))
OF_CLIENTS = least_noise(Guarantee(1.0, protects=WholeClients(5)), Ball(1, 5, 5))


class Half:
    """A source of randomness that is none: every draw of noise is its median."""

    private = True

    def words(self, count):
        return np.full(count, 2**63, np.uint64)


def counts() -> ClientRows:
    return rows_of(LAYOUT, [7, 0, 2], [2, 0, 7])


def summand() -> SumVector:
    return counts().summand(0, None, SystemBits())


def clear() -> ClearSum:
    return ClearSum(LAYOUT, counts())


def of_clients(most: int) -> ClearSum:
    return answered(LAYOUT, [1, 2, 0], guarantee=Guarantee(1.0, protects=WholeClients(most)))


def small() -> ClientRows:
    symbols, cells = [np.array([1, 2, 2])], np.arange(3, dtype=np.int32)
    return ClientRows.count(symbols, cells, LAYOUT, OF_CLIENTS.guarantee, SystemBits())


def ring(most: int) -> ClearSum:
    return ClearSum.of_ring(RingSum(np.ones(3, np.uint64)), LAYOUT, clients=2, most_records=most)


def shares(most: int, clients: int = 2) -> ShareSum:
    promised = Guarantee(1.0, 1e-6, WholeClients(most))
    share = calibrate_shares(promised, n_min=2, moves=Ball(1, most, most))
    words = RingSum(np.ones(3, np.uint64))
    return ShareSum(words, LAYOUT, share, clients=clients, counted=False)


def part(most: int) -> PartialSum:
    return PartialSum(np.ones(3, np.uint64), most)


def labels() -> LabelSum:
    texts = np.frombuffer(b"7".ljust(LONGEST, b"\0"), np.int64)[None]
    return LabelSum([("a", Held([ClientLabels([texts]).to_wire(0)]))])


RUN = {
    "a seal that is a function": (TypeError, lambda: counts().sealed(0, lambda box: box)),
    "a seal to a key that is none": (ValueError, lambda: counts().sealed(0, b"", b"")),
    "a mask that is a function": (
        TypeError, lambda: summand().masked(lambda v: v),
    ),
    "no mask": (
        ValueError,
        lambda: summand().masked([], [], length=3),
    ),
    "a mask that is only taken off": (
        ValueError,
        lambda: SumVector(np.ones(3, int)).masked([], [bytes(32)], length=3),
    ),
    "a number that a function computes": (
        AttributeError, lambda: clear().release_number(sum, EVENT, SystemBits()),
    ),
    "a sum said to have its noise": (AttributeError, lambda: clear().release_noised(EVENT)),
    "a sum taken for one of shares": (AttributeError, lambda: ShareSum.release(clear(), EVENT)),
    "randomness that is none": (TypeError, lambda: clear().release(EVENT, Half())),
    "a share of noise that is none": (
        TypeError,
        lambda: counts().summand(0, calibrate_shares(Guarantee(1.0, 1e-6), n_min=2), Half()),
    ),
    "coins that are none": (
        TypeError,
        lambda: ClientRows.count(
            [np.array([7])], np.zeros(8, np.int32), ALIKE, Guarantee(1.0), Half()
        ),
    ),
    "an event without noise": (
        NotPrivateEnough,
        lambda: clear().release(replace(EVENT, table=NoiseTable((TOTAL,))), SystemBits()),
    ),
    "an event of another class": (TypeError, lambda: type("Own", (Release,), {})),
    "an event that is none": (
        AttributeError, lambda: clear().release(NoiseTable((TOTAL,)), SystemBits()),
    ),
    "an event that hides less": (
        ValueError,
        lambda: clear_of(Layout((1, 2)), [7, 0, 7]).release(EVENT, SystemBits()),
    ),
    "clients of any size with an event for small ones": (
        ValueError, lambda: clear().release(OF_CLIENTS, SystemBits()),
    ),
    "small clients' rows added to others": (
        ValueError,
        lambda: ClearSum(LAYOUT, counts(), small()).release(OF_CLIENTS, SystemBits()),
    ),
    "clients of up to six records with an event for five": (
        ValueError, lambda: of_clients(6).release(OF_CLIENTS, SystemBits()),
    ),
    "a secure sum of clients of any size with an event for small ones": (
        ValueError, lambda: ring(0).release(OF_CLIENTS, SystemBits()),
    ),
    "a secure sum of clients of six records with an event for five": (
        ValueError, lambda: ring(6).release(OF_CLIENTS, SystemBits()),
    ),
    "noise shares of whole clients for those of more records": (
        ValueError, lambda: shares(6).release(OF_CLIENTS),
    ),
    "fewer noise shares than suffice": (ValueError, lambda: shares(5, 1).release(OF_CLIENTS)),
    "an aggregator's part of clients of more records than the event hides": (
        ValueError,
        lambda: part(6).answer(
            OF_CLIENTS, LAYOUT, SystemBits(), added=[bytes(32)], removed=[]
        ),
    ),
    "the ring words of a sum": (TypeError, lambda: from_ring(np.asarray(RingSum(np.ones(3))))),
    "an aggregator's part without a mask": (
        ValueError,
        lambda: part(0).answer(EVENT, LAYOUT, SystemBits(), added=[], removed=[]),
    ),
    "an aggregator's part with an event that hides less": (
        ValueError,
        lambda: part(0).answer(
            EVENT, Layout((1, 2)), SystemBits(), added=[bytes(32)], removed=[]
        ),
    ),
    "whether a hidden number of records is zero": (
        ValueError, lambda: clear().is_empty(replace(Guarantee(1.0), protects=WholeClients(9))),
    ),
    "labels with noise that has no end": (
        ValueError, lambda: labels().release(EVENT, SystemBits()),
    ),
    "labels with randomness that is none": (
        TypeError, lambda: labels().release(SELECTION, Half()),
    ),
    "labels with the noise of a night": (
        TypeError, lambda: labels().release(SELECTION, NightNoise(Continual(9), [bytes(32)])),
    ),
    "labels as a list": (TypeError, lambda: list(labels())),
    "a pickle of labels": (TypeError, lambda: __import__("pickle").dumps(labels())),
    "a pickle": (TypeError, lambda: __import__("pickle").dumps(clear())),
    "a pickle of rows": (TypeError, lambda: __import__("pickle").dumps(counts())),
    "an array": (TypeError, lambda: np.asarray(clear())),
    "an array of rows": (TypeError, lambda: np.asarray(counts())),
    "a row by its place": (TypeError, lambda: counts()[0]),
    "row by row": (TypeError, lambda: list(counts())),
    "all rows at once": (TypeError, lambda: counts().to_wire()),
}  # fmt: skip


def test_an_event_for_clients_fits_sums_of_clients_that_are_no_larger():
    for total in (of_clients(5), of_clients(4), ring(5), ClearSum(LAYOUT, small())):
        assert total.release(OF_CLIENTS, SystemBits()).release is OF_CLIENTS
    assert shares(5).release(OF_CLIENTS).release is OF_CLIENTS
    assert part(5).answer(OF_CLIENTS, LAYOUT, SystemBits(), added=[bytes(32)], removed=[])


@pytest.mark.parametrize("way", RUN)
def test_a_way_that_is_run_fails(way):
    error, leak = RUN[way]
    with pytest.raises(error) as raised:
        leak()
    assert "7" not in str(raised.value)


def test_an_aggregator_answers_once():
    """Two answers under one mask differ by their noise, and under two by the noise's mean."""
    half = part(0)
    half.answer(EVENT, LAYOUT, SystemBits(), added=[bytes(32)], removed=[])
    with pytest.raises(RuntimeError, match="once"):
        half.answer(EVENT, LAYOUT, SystemBits(), added=[bytes(32)], removed=[])


SLOTS = {"_values", "_words", "_total"}
COMPUTED = {"getattr", "attrgetter", "vars", "methodcaller"}
ONE_PLACE = {"to_wire": "clients/drift_queries.py", "held": "clients/channels.py",
             "ShareSum": "strategies/secure_sum.py",
             "of_ring": "strategies/secure_sum.py"}  # fmt: skip
"""What hands out exact numbers, or takes a sum's word for its noise, and who may call it."""
OF_PUBLIC_ROWS = {
    "flwr_kld/common/extras.py", "flwr_kld/table/database.py",
    "flwr_kld/common/strict_model.py", "flwr_kld/secure_sums/client.py",
    "flwr_kld/planner/forecast.py", "flwr_kld/planner/setting.py",
    "flwr_kld/views/check_series.py", "flwr_kld/views/round_series.py",
    "flwr_kld/views/series.py", "flwr_kld/report/explanation.py",
    "flwr_kld/report/stored_reference.py", "flwr_kld/ledger/cost.py",
    "flwr_kld/ledger/rows.py", "flwr_kld/cli/doctor.py",
    "flwr_kld/predictors/bayes_mixture.py",
    "flwr_kld/guard/limits.py", "flwr_kld/guard/receipts.py",
    "flwr_kld/cli/records.py", "flwr_kld/table/base.py", "flwr_kld/table/table.py",
    "strategies/private_predictor.py",
}  # fmt: skip
"""Files that read attributes by computed names, none of them of private numbers."""


def found(text: str, file: str = "") -> set[str]:
    """What a source outside the kernel does that only the kernel may."""
    ways = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            ways |= {node.attr} & SLOTS if not own else set()
            if node.attr in ("__getattribute__", "__getstate__", "__reduce__"):
                ways.add(node.attr)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            literal = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
            if called in COMPUTED and file not in OF_PUBLIC_ROWS:
                if called != "getattr" or not literal:
                    ways.add(called)
                elif node.args[1].value in SLOTS:
                    ways.add(node.args[1].value)
            if called in ONE_PLACE and file != ONE_PLACE[called]:
                ways.add(called)
    return ways


LEAKS = {
    "a slot": "def leak(clear): return clear._values.tolist()",
    "a slot by its name": "def leak(clear): return getattr(clear, '_values')",
    "a slot by a joined name": "def leak(clear): return getattr(clear, '_val' + 'ues')",
    "a slot by an operator": "from operator import attrgetter\nleak = attrgetter('_values')",
    "a slot by the class": "def leak(c): return object.__getattribute__(c, '_val' + 'ues')",
    "a row on its way to a proof": "def leak(counts): return counts.held(0).into(list)",
    "its wire form": "def leak(counts): return counts.to_wire()",
    "ring words": "def leak(total): return total._words",
    "a sum said to have noise": "def leak(t, l, s): return ShareSum(t, l, s, clients=2)",
    "a secure sum of one's own": "def leak(t): return ClearSum.of_ring(t)",
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_way_in_the_source_is_found(leak):
    assert found(LEAKS[leak])


def test_nothing_outside_the_kernel_goes_such_a_way():
    folders = ("flwr_kld", "strategies", "clients")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    outside = [p for p in files if KERNEL not in p.parents]
    assert len(outside) > 200
    ways = {
        str(p.relative_to(ROOT)): found(p.read_text(), str(p.relative_to(ROOT))) for p in outside
    }
    assert not {file: way for file, way in ways.items() if way}


def test_the_kernel_imports_the_standard_library_and_numpy_only():
    """And `cryptography` for its channels, in one file."""
    for path in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.partition(".")[0]
                crypto = path.name == "channels.py" and top == "cryptography"
                known = top in sys.stdlib_module_names or top == "numpy" or crypto
                assert known or name.startswith("flwr_kld.kernel"), (path.name, name)


def test_the_proof_of_a_release_loads_nothing_else():
    script = (
        "import sys, flwr_kld.kernel.release; "
        "print(*(m for m in sys.modules if m.startswith('flwr_kld.') and '.kernel' not in m), "
        "*{'pydantic', 'scipy', 'cryptography', 'narwhals'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # names on request, and the hook by which reports are shown
    assert done.stdout.split() == [
        "flwr_kld.common",
        "flwr_kld.common.extras",
        "flwr_kld.common.report_views",
    ]
