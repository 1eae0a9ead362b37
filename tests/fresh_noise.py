"""Run tests many times with fresh noise, and hold their failures against the rates they state.

A test states by ``@pytest.mark.rate`` how often it may fail; one that states none may never fail.
Without names of files all tests run that state a rate; of named files all tests that draw noise.
None may fail more often than an exact binomial test allows: of all tests together one in a thousand
times raises a false alarm. A failure is repeated by ``FLWR_KLD_NOISE=… pytest TEST``.
"""

import argparse
import contextlib
import multiprocessing
import os
import secrets
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from scipy.stats import binom

ALARM = 1e-3
HERE = Path(__file__).parent


class Run:
    """What was fresh about a run, its tests with their rates, those that failed, who drew noise."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rates: dict[str, float] = {}
        self.failed: set[str] = set()
        self.drawn_by: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            mark = item.get_closest_marker("rate")
            self.rates[item.nodeid] = mark.args[0] if mark else 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        from noise import NOISE

        self.drawn_by = NOISE.drawn_by


def run(tests: list[str], end: float, number: int) -> Run | None:
    """Run them in a process that remembers nothing, unless it is late."""
    if time.monotonic() > end:
        return None
    from noise import NOISE

    NOISE.shift, NOISE.process = number, os.getpid()
    seen = Run(number)
    silent(tests, seen)
    return seen


def silent(arguments: list[str], *plugins: object) -> None:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(["-p", "no:cacheprovider", *arguments], plugins=plugins)


def runs_of(tests: list[str], runs: int, *, minutes: float, workers: int) -> list[Run]:
    work = partial(run, tests, time.monotonic() + 60 * minutes)
    silent(["--collect-only", *tests])  # imports what they need, once for all
    numbers = [secrets.randbelow(1 << 60) + 1 for _ in range(runs)]
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        return [seen for seen in pool.map(work, numbers, chunksize=1) if seen]


def drawing(files: list[str]) -> list[str]:
    """The tests of these files that draw noise or state a rate: nothing else is ever fresh."""
    (seen,) = runs_of(files, 1, minutes=1, workers=1)
    return [
        test
        for test, rate in seen.rates.items()
        if rate or any(test.startswith(node) for node in seen.drawn_by)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="test files; by default all that state a rate")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.files:
        tests = drawing(options.files)
    else:
        stating = (path for path in HERE.rglob("test_*.py") if "mark.rate" in path.read_text())
        tests = ["-m", "rate and not slow", *map(str, sorted(stating))]
    runs = tests and runs_of(tests, options.runs, minutes=options.minutes, workers=options.workers)
    rates = {test: rate for seen in runs for test, rate in seen.rates.items()}
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
