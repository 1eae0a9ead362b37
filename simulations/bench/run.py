"""One table over all benches, each against its peer in the same run: ``make bench``.

    python simulations/bench/run.py --out out/bench      # 15 minutes on two idle cores
    python simulations/bench/run.py --quick              # a minute, small sizes, no peers installed
    python simulations/bench/run.py --only sampler
    python simulations/bench/run.py --page docs/benchmarks.md   # and writes its rows into the docs

Writes ``bench.json``, and between two marks of a page what that has, under one commit: the same
command goes on where it was stopped. A bench is a function that yields rows, in a process of its
own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Row, exponents, in_a_process
from rich.console import Console
from rich.progress import track
from rich.table import Table

BENCHES = (
    "year", "superlink", "against_flower", "against_nvflare", "secaggplus", "prio3",
    "two_aggregators", "secure_sum", "sampler", "scaling", "waits",
)  # fmt: skip
"""Modules beside this one with a function `rows`."""
MARKS = "<!-- make bench: begin -->", "<!-- make bench: end -->"
"""Of a page: what is between them is written anew."""
_WIDE = 120
"""Characters of a line of a file or a pipe, of which nobody says how wide it is."""


def rows_of(name: str, repeats: int, quick: bool) -> list[Row]:
    """Run one bench."""
    return list(importlib.import_module(name).rows(repeats, quick=quick))


def run(names: tuple[str, ...], repeats: int, out: Path, *, quick: bool) -> list[Row]:
    """Run benches one after the other, each in a process of its own.

    Those that the folder has of this very commit are not run again; their rows are returned, too.
    """
    found = [] if quick else kept(out)
    done = {row.bench for row in found}
    for name in track([n for n in names if n not in done], description="benches", transient=True):
        found += in_a_process(rows_of, name, repeats, quick)
        save(found, out)
    return found


def kept(out: Path) -> list[Row]:
    """Return the rows that an earlier run saved, if no file has changed since."""
    file, commit = out / "bench.json", _commit()
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if told.get("commit") != commit or commit.endswith("-dirty"):
        return []
    names = {field.name for field in fields(Row)}
    return [Row(**{k: v for k, v in row.items() if k in names}) for row in told["rows"]]


def growing(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows in which something grows, by what it is."""
    sized = [row for row in rows if row.size is not None]
    groups = {
        f"{bench}: {what}": list(group)
        for (bench, what), group in groupby(sized, key=lambda row: (row.bench, row.what))
    }
    return {name: group for name, group in groups.items() if len(group) > 1}


def table_of(rows: list[Row]) -> Table:
    """Lay rows out for a terminal."""
    x25519, numpy = (1e6 * median(getattr(r, y) for r in rows) for y in ("x25519", "numpy"))
    table = Table(
        title="CPU milliseconds, medians",
        caption=f"yardsticks: X25519 exchange {x25519:.0f} µs, a pass of NumPy over a million "
        f"floats {numpy:.0f} µs; × is time in exchanges of the same minute",
    )
    for head in ("bench", "what", "peer"):
        table.add_column(head)
    for head in ("size", "ms", "× X25519", "peer ms", "peer ÷ ours", "MB"):
        table.add_column(head, justify="right")
    for row in rows:
        peer = None if row.peer_seconds is None else 1e3 * row.peer_seconds
        table.add_row(
            row.bench, row.what, row.peer or "",
            "" if row.size is None else f"{row.size:,}",
            f"{1e3 * row.seconds:,.2f}", f"{row.seconds / row.x25519:,.0f}",
            _number(peer), _number(row.ratio), _number(row.megabytes),
        )  # fmt: skip
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def save(rows: list[Row], out: Path) -> dict[str, Any]:
    """Write the rows and their exponents as JSON; return them."""
    out.mkdir(parents=True, exist_ok=True)
    grown = growing(rows)
    told = {
        "commit": _commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": {"processor": platform.machine(), "python": platform.python_version()},
        "rows": [{**asdict(row), "ratio": row.ratio} for row in rows],
        "exponents": {name: exponents(group) for name, group in grown.items()},
    }
    (out / "bench.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return told


def _commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip() or "unknown"


def write_page(told: dict[str, Any], page: Path) -> None:
    """Write what `save` returned between the marks of a page; `ValueError` if it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{page} has no lines {MARKS[0]} and {MARKS[1]}: put them in")
    text = "\n".join(_markdown(told))
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def _markdown(told: dict[str, Any]) -> Iterator[str]:
    """Yield the page's lines: what each bench measured, and beside it each of its peers."""
    machine, lines = told["machine"], list[tuple[str, ...]]()
    for (bench, what), group in groupby(told["rows"], key=lambda row: (row["bench"], row["what"])):
        own = list(group)
        grown = told["exponents"].get(f"{bench}: {what}")
        growth = f", as n^{grown[0]:.2f}" if grown else ""
        cells = (
            bench, f"{_ends(own, 'size')} {what}".strip() + growth,
            _ends(own, "seconds"), _ends(own, "megabytes"),
        )  # fmt: skip
        ratios = {row["peer"]: row["ratio"] for row in own if row["peer"]} or {"": None}
        for peer, ratio in ratios.items():
            lines.append((*cells, f"{_number(ratio)} × {peer}" if peer else ""))
            cells = "", "", "", ""
    heads = "", "", "milliseconds", "MB", "a peer takes"
    wide = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    yield (
        f"Commit `{told['commit']}`, {told['date']}, {machine['processor']}, Python "
        f"{machine['python']}; processor time, of `superlink` by the clock; of sizes the ends. One "
        "alone: `simulations/bench/run.py --only NAME`."
    )
    yield "\n```text"
    for cells in (heads, *lines):
        yield "  ".join(map(str.ljust, cells, wide)).rstrip()
    yield "```"


def _ends(rows: list[dict[str, Any]], name: str) -> str:
    """Write a number of the first and the last row."""
    times = 1000 if name == "seconds" else 1
    known = [_number(times * row[name]) for row in (rows[0], rows[-1]) if row[name] is not None]
    return "–".join(dict.fromkeys(known)) if rows[-1]["size"] is not None else "".join(known[:1])


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder to write")
    parser.add_argument("--only", choices=BENCHES, nargs="+", default=BENCHES)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; medians count")
    parser.add_argument("--page", type=Path, help="page whose rows are written anew")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    rows = run(tuple(arguments.only), arguments.repeats, arguments.out, quick=arguments.quick)
    console.print(table_of(rows))
    for name, group in growing(rows).items():
        fitted, last = exponents(group)
        console.print(f"{name} grows like n^{fitted:.2f}, in the last step n^{last:.2f}")
    told = save(sorted(rows, key=lambda row: BENCHES.index(row.bench)), arguments.out)
    if arguments.page:
        write_page(told, arguments.page)
    console.print(f"Saved bench.json in {arguments.out}")


if __name__ == "__main__":
    main()
