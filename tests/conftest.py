"""For all tests: a busy machine is slow, and that is no failure; examples and noise are the same
everywhere.

The longest files come first.
"""

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from examples import TIMES, examples

# Threads of linear algebra on small matrices wait for each other most of the time. NumPy reads it
# when it is imported, as the next module does.
os.environ.setdefault("OMP_NUM_THREADS", "1")
from noise import _noise, pytest_fixture_setup, pytest_runtest_setup  # noqa: F401

MEMORY = Path("/dev/shm")
"""Temporary files go there if two gigabytes fit: a ledger or a guard waits for the disk at every
commit, which no test is about."""
if MEMORY.is_mount():
    found = os.statvfs(MEMORY)
    if not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > 2**31:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile(
    "ours",
    deadline=None,
    derandomize=TIMES < 1,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ours")

gc.disable()  # modules and thousands of tests are made now, and none of them goes before the end

LONGEST = (
    "test_superlink.py", "test_ray.py", "test_init_run.py", "test_packaging.py", "test_forecast.py",
    "test_standing.py", "test_decisions.py", "test_secure_sum.py", "test_study.py",
    "test_predictor_run.py", "test_mutations.py", "test_nights.py",
)  # fmt: skip
"""Files that would keep one worker busy after the others have finished."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: Path(item.path).name not in LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator:
    """Report no keywords: nobody reads them, and they are a third of what sending one takes."""
    report = yield
    report.keywords = {}
    return report


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later collections of garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def ledger_at(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Put an empty ledger in a place and return its URL: a copy, which takes less time."""
    from flwr_kld.ledger import Ledger

    first = tmp_path_factory.mktemp("ledger") / "drift.db"
    Ledger(f"sqlite:///{first}")

    def put(path: Path) -> str:
        shutil.copy(first, path)
        return f"sqlite:///{path}"

    return put


@pytest.fixture
def no_plots(monkeypatch):
    """Leave the plots out of pages that are read for their words; drawing four takes a second."""

    def blank(series, file, **options):
        file.write_text("<svg/>", encoding="utf-8")

    monkeypatch.setattr("flwr_kld.views.files.Kept.plot", blank)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Be in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Time that stands still: its `seconds` are a test's to set."""
    now = SimpleNamespace(seconds=1e9)
    monkeypatch.setattr(time, "time", lambda: now.seconds)
    return now


@pytest.fixture
def two_cohorts(monkeypatch) -> None:
    """A forecast draws two cohorts of each kind: its numbers are in planner/test_forecast."""
    for name in ("detection", "forecast"):
        monkeypatch.setattr(import_module(f"flwr_kld.planner.{name}"), "_COHORTS", 2)


@pytest.fixture
def environment() -> Iterator[MutableMapping[str, str]]:
    """The environment, which is afterwards as it was."""
    with patch.dict(os.environ):
        yield os.environ


@pytest.fixture
def without(monkeypatch) -> Callable[[str], None]:
    """Have a module that cannot be imported, as if it were not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)
