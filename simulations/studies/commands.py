"""The command of a study that is made of tasks: its options, and how it ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from flwr_kld.simulations.studies.resumable import Configuration, Kept, Work, complete


def parser_of(doc: str | None, *, out: str) -> argparse.ArgumentParser:
    """Return a parser of what all these studies can be told: workers, a cluster, a folder."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        help="on this machine; 0: in this process, without Ray",
    )
    parser.add_argument("--address", help="of a Ray cluster whose nodes have this clone")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder to write")
    return parser


def computed(
    work: Work,
    shared: Any,
    tasks: Sequence[Configuration],
    chosen: argparse.Namespace,
    console: Console,
) -> Kept:
    """Do what is missing of a study, and return its results; leave with a reason if that fails."""
    try:
        kept = Kept(chosen.out / "results")
        with kept.held():
            complete(
                work, shared, tasks, kept,
                workers=chosen.workers, address=chosen.address, console=console,
            )  # fmt: skip
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        sys.exit(130)
    return kept
