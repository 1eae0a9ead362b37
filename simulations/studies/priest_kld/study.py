"""The figures of PRIEST-KLD's sections 5.1 and 5.2 with correct mechanisms.

Run ``make study``, or ``python simulations/studies/priest_kld/study.py [--data writers.npz]
[--repeats 50] [--workers 2] [--out DIR] [--cropped] [--quick]``. It goes on where it was stopped or
killed; ``--finished`` reports what is there. Writes ``priest_kld.csv``, ``priest_kld.json`` and the
figures ``figure_1.png`` to ``figure_5.png``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flwr_kld.simulations.studies.priest_kld.figures import draw
from flwr_kld.simulations.studies.priest_kld.measure import measure
from flwr_kld.simulations.studies.priest_kld.settings import CLIENTS, Study
from flwr_kld.simulations.studies.priest_kld.summary import (
    BY_REPEAT,
    RATIOS,
    rows_of,
    summary_of,
    table_of,
)
from flwr_kld.simulations.studies.priest_kld.written import WRITERS, Written
from flwr_kld.simulations.studies.resumable import Kept
from flwr_kld.simulations.studies.runner import computed, console, parser_of, save, show


def report(study: Study, written: Written, kept: Kept, out: Path) -> None:
    """Write tables and figures, and print what is asked first."""
    rows = rows_of(study, written, kept)
    summary = summary_of(rows, study, written)
    clients = study.of_paper(CLIENTS)
    if table := table_of(rows, clients):
        show(f"|C| = {clients}: mean squared error at the best λ and τ, nats²", table)
    if summary[RATIOS]:
        show("baselines over ours", summary[RATIOS])
    for name, value in summary.items():
        if name != RATIOS:
            console.print(f"{name}: {value}")
    columns = [{k: v for k, v in row.items() if k != BY_REPEAT} for row in rows]
    save(columns, out, "priest_kld", summary)
    draw(rows, study, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="study", repeats=(50, "of each setting"))
    parser.add_argument(
        "--data",
        default="digits",
        help=f".npz file, femnist, or digits: {WRITERS:,} writers who redraw them",
    )
    parser.add_argument(
        "--cropped",
        action="store_true",
        help="the product's alphabet: blocks of the square around the ink, without halos",
    )
    parser.add_argument("--quick", action="store_true", help="two digits, twice: seconds")
    parser.add_argument("--finished", action="store_true", help="report what is finished")
    chosen = parser.parse_args(arguments)
    try:
        writers = CLIENTS if chosen.quick else WRITERS
        written = Written.load(chosen.data, writers, cropped=chosen.cropped)
    except ValueError as error:
        sys.exit(str(error))
    study = Study.quick(written) if chosen.quick else Study.of(written, chosen.repeats)
    for reason in study.left_out:
        console.print(reason)
    if not chosen.finished:
        computed(measure, written, study.tasks, chosen)
    report(study, written, Kept(chosen.out / "results"), chosen.out)


if __name__ == "__main__":
    main()
