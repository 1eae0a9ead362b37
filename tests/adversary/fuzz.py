"""Ask an honest client a million changed messages, on all cores.

    PYTHONPATH=tests python tests/adversary/fuzz.py [--lies 1000000] [--first 0] [--workers N]

Lies come in batches of a thousand, each of one scenario and drawn from a seed of its own: a batch
asks the same lies in every run, but for the keys and ids that its honest check drew. The last line
says where a run that was stopped goes on.
"""

import argparse
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from adversary.lying_server import SCENARIOS, LyingServer, watching

BATCH = 1000
"""Lies drawn from one seed."""


@cache
def server(name: str) -> LyingServer:
    """Return this process's server of a scenario: its honest check is run once."""
    return LyingServer(name, Path.cwd())


def batch(number: int) -> tuple[int, int, str]:
    """Ask one batch; return its number, how many lies were answered, and what was found."""
    name = list(SCENARIOS)[number % len(SCENARIOS)]
    rng, asked = random.Random(f"{name} {number}"), server(name)
    answered = done = 0
    try:
        with watching() as seen:
            while done < BATCH:
                answered += asked.lie(rng, seen)
                done += 1
    except Exception as error:  # an assertion, or whatever escaped from a handler
        return number, answered, f"{name}, lie {done}: {type(error).__name__}: {error}"
    return number, answered, ""


def begin(folder: str) -> None:
    """Let a worker keep its clients' files in a folder of its own, and log no refusals."""
    own = Path(folder, str(os.getpid()))
    own.mkdir()
    os.chdir(own)
    logging.disable(logging.CRITICAL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lies", type=int, default=1_000_000, help="messages")
    parser.add_argument("--first", type=int, default=0, help="batch to begin with")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    batches = range(options.first, options.first + -(-options.lies // BATCH))
    start, answered, shown = time.monotonic(), 0, 0.0
    spawned = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        spawned.Pool(options.workers, begin, [folder]) as pool,
    ):
        for number, some, found in pool.imap(batch, batches):
            if found:
                print(f"batch {number} found {found}")
                print(f"again: make fuzz FROM={number} LIES={BATCH}")
                return 1
            answered += some
            now = time.monotonic() - start
            if now > shown + 5 or number == batches[-1]:
                shown, lies = now, BATCH * (number + 1 - options.first)
                print(
                    f"{lies:,} lies, {answered:,} answered, nothing found; {lies / now:,.0f} a "
                    f"second; goes on with FROM={number + 1}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
