"""Run tests many times with fresh noise, and hold their failures against the rates they state.

A test states by ``@pytest.mark.rate`` how often it may fail; one that states none may never fail.
Without names of files all tests run that state a rate; of named files all tests that draw noise.
None may fail more often than an exact binomial test allows: of all tests together one in a thousand
times raises a false alarm. A failure is repeated by ``FLWR_KLD_NOISE=… pytest TEST``. With
``--out`` each run is kept when it ends, and the same command goes on where it was stopped.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import pytest

ALARM = 1e-3
HERE = Path(__file__).parent


@dataclass(eq=False)  # pytest keeps plugins in a set
class Run:
    """What was fresh about a run, its tests with their rates, those that failed, who drew noise."""

    number: int
    rates: dict[str, float] = field(default_factory=dict)
    ended: int = 0
    failed: list[str] = field(default_factory=list)
    drawn_by: list[str] = field(default_factory=list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            mark = item.get_closest_marker("rate")
            self.rates[item.nodeid] = mark.args[0] if mark else 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ended += report.when == "teardown"
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        from noise import NOISE

        self.drawn_by = sorted(NOISE.drawn_by)


def run(tests: list[str], end: float, number: int) -> Run | None:
    """Run them in a process that remembers nothing, unless it is late."""
    if time.monotonic() > end:
        return None
    from noise import NOISE

    NOISE.shift, NOISE.process = number, os.getpid()
    seen = Run(number)
    # Runs that share the parent of their temporary folders remove each other's links when they end.
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        silent([f"--basetemp={folder}/run", *tests], seen)
    if seen.ended < len(seen.rates) or not seen.rates:
        raise RuntimeError(f"{seen.ended} of {len(seen.rates)} tests ran")
    return seen


def silent(arguments: list[str], *plugins: object) -> None:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(["-p", "no:cacheprovider", *arguments], plugins=plugins)


def runs_of(tests: list[str], runs: int, *, minutes: float, workers: int) -> Iterator[Run]:
    work = partial(run, tests, time.monotonic() + 60 * minutes)
    # Imports what they need, once for all; loggers keep standard error, so that it stays open.
    silent(["--capture=no", "--collect-only", *tests])
    numbers = [secrets.randbelow(1 << 60) + 1 for _ in range(runs)]
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        yield from filter(None, pool.imap_unordered(work, numbers))


def drawing(files: list[str]) -> list[str]:
    """The tests of these files that draw noise or state a rate: nothing else is ever fresh."""
    (seen,) = runs_of(files, 1, minutes=math.inf, workers=1)
    return [
        test
        for test, rate in seen.rates.items()
        if rate or any(test.startswith(node) for node in seen.drawn_by)
    ]


def kept(out: Path | None) -> list[Run]:
    if out is None or not out.exists():
        return []
    return [Run(**json.loads(line)) for line in out.read_text(encoding="utf-8").splitlines()]


def keep(seen: Run, out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(seen)) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="test files; by default all that state a rate")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="JSON lines of the same tests, a run each")
    options = parser.parse_args()
    if options.files:
        tests = drawing(options.files)
    else:
        stating = (path for path in HERE.rglob("test_*.py") if "mark.rate" in path.read_text())
        tests = ["-m", "rate and not slow", *map(str, sorted(stating))]
    runs = kept(options.out)
    if tests and len(runs) < options.runs:
        fresh = runs_of(
            tests, options.runs - len(runs), minutes=options.minutes, workers=options.workers
        )
        for seen in fresh:
            runs.append(seen)
            keep(seen, options.out)
    rates = {test: rate for seen in runs for test, rate in seen.rates.items()}
    from scipy.stats import binom  # after the tests' settings, which NumPy reads when imported

    too_often = 0
    print("failed     of   stated  test")
    for test, rate in sorted(rates.items()):
        numbers = [seen.number for seen in runs if test in seen.failed]
        alarm = binom.sf(len(numbers) - 1, len(runs), rate) < ALARM / len(rates)
        too_often += alarm
        if numbers or rate:
            print(f"{len(numbers):6} {len(runs):6} {rate:8.0e}  {test}", end="")
            print(f"  FLWR_KLD_NOISE={numbers[0]}" if numbers else "", end="")
            print("  TOO OFTEN" if alarm else "")
    print(f"{len(rates)} tests in {len(runs)} runs; {too_often} fail more often than they say")
    return 1 if too_often else 0


if __name__ == "__main__":
    sys.exit(main())
