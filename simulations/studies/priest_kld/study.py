"""The figures of PRIEST-KLD's sections 5.1 and 5.2 with correct mechanisms.

Run ``make study``, or ``python simulations/studies/priest_kld/study.py [--data writers.npz]
[--repeats 50] [--workers 2] [--out DIR] [--smoke]``. It goes on where it was stopped or killed.
Writes ``priest_kld.csv``, ``priest_kld.json`` and the figures ``figure_1.png`` to ``figure_5.png``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flwr_kld.simulations.studies.priest_kld.figures import draw
from flwr_kld.simulations.studies.priest_kld.measure import measure
from flwr_kld.simulations.studies.priest_kld.settings import CLIENTS, DRAWS, Study
from flwr_kld.simulations.studies.priest_kld.summary import best, curves, rows_of, summary_of
from flwr_kld.simulations.studies.priest_kld.written import WRITERS, Written
from flwr_kld.simulations.studies.resumable import Kept
from flwr_kld.simulations.studies.runner import computed, console, parser_of, save, show


def report(study: Study, written: Written, kept: Kept, out: Path) -> None:
    """Write tables and figures, and print what is asked first."""
    rows = rows_of(study, written, kept)
    summary = summary_of(rows, study, written)
    names = ("rule", "trust", "epsilon", "lam", "mse", "low", "high", "bias", "noise")
    shown = [{name: best(curve)[name] for name in names} for curve in curves(rows, CLIENTS, DRAWS)]
    if shown:
        show(f"{study.repeats} repeats, λ chosen in hindsight, nats²", shown)
    for name, value in summary.items():
        console.print(f"{name}: {value}")
    save(rows, out, "priest_kld", summary)
    draw(rows, study, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="study", repeats=(50, "of each setting"))
    parser.add_argument(
        "--data",
        default="digits",
        help=f".npz file, femnist, or digits: {WRITERS:,} writers who redraw them",
    )
    parser.add_argument("--smoke", action="store_true", help="two digits, once: seconds")
    chosen = parser.parse_args(arguments)
    try:
        written = Written.load(chosen.data, CLIENTS if chosen.smoke else WRITERS)
    except ValueError as error:
        sys.exit(str(error))
    study = Study.smoke(written) if chosen.smoke else Study.of(written, chosen.repeats)
    computed(measure, written, study.tasks, chosen)
    report(study, written, Kept(chosen.out / "results"), chosen.out)


if __name__ == "__main__":
    main()
