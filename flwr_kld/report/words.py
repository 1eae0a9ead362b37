"""What texts, tables and pages say in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld.inference.verdict import Verdict


def counted(number: int, what: str) -> str:
    """Write a number of things: ``1 check``, ``2 checks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shown(name: str) -> str:
    """Write a label for a line of text; different ones differently.

    What is blank, begins with a quotation mark or is not printable is quoted and escaped.
    """
    return name if name.isprintable() and name.strip() and name[0] not in "'\"" else ascii(name)


def left_out(reasons: Mapping[str, int]) -> str:
    """Write ``2 × no reply; 1 × refused: …``, the most frequent reason first; empty for none."""
    most_first = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return "; ".join(f"{clients} × {reason}" for reason, clients in most_first if clients)


def aside(reasons: Mapping[str, int]) -> str:
    """Write the same in brackets, behind a space."""
    words = left_out(reasons)
    return f" ({words})" if words else ""


def nats(value: float | None) -> str:
    """Write a divergence, a dash for none."""
    return "–" if value is None else f"{value:z.3f}"


def how_sure(holds: Mapping[str, str], *numbers: str) -> str:
    """Write `` (asymptotic)`` or `` (proven)`` behind a guarantee; empty if it is not known."""
    kinds = {holds[number].partition(" ")[0].rstrip(",") for number in numbers if number in holds}
    return f" ({' and '.join(sorted(kinds))})" if kinds else ""


_NAMES = {
    "lower_bound": "lower bound",
    "upper_limit": "upper limit",
    "outside": "limits of the fraction outside",
    "single_check": "alarms by a single check",
    "evidence": "alarms by evidence over checks",
}


def guarantees(holds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield how guarantees hold, and the names of those that hold so."""
    for why in dict.fromkeys(holds.values()):
        yield why, ", ".join(_NAMES.get(number, number) for number in holds if holds[number] == why)


def evidence(won: float) -> str:
    """Write evidence over checks, which spans many powers of ten."""
    if won < 1e-3:
        return "below 0.001" if won > 0 else "0"
    return f"{won:.3g}" if won < 1000 else f"{won:,.0f}"


def alarm_lines(verdict: Verdict) -> Iterator[str]:
    """Yield how often the alarm is false, if there is one."""
    if (alarm := verdict.alarm) is None:
        return
    rest, kind = alarm.rate - alarm.by_evidence, how_sure(verdict.holds, "evidence")
    checks = "a check" if alarm.horizon == 1 else f"any {alarm.horizon:,} checks"
    yield (
        f"probability of a false alarm in {checks}: at most {100 * alarm.rate:.3g} %, namely "
        f"{100 * alarm.by_evidence:.3g} % by evidence over checks{kind} and {100 * rest:.3g} % by "
        "what single checks show or a sampled reference hides"
    )
    yield (
        "between two false alarms by evidence: "
        f"{alarm.between_false_alarms:,.0f} checks or more on average{kind}"
    )


def table_of(
    heads: Iterable[str],
    rows: Iterable[tuple[Iterable[str], bool]],
    *,
    left: Sequence[str],
    caption: str = "",
    title: str = "",
) -> Table:
    """Return a table for a terminal of rows, and whether each stands out."""
    table = Table(
        title=escape(title) or None, caption=escape(caption) or None, box=SIMPLE,
        padding=(0, 1, 0, 0), pad_edge=False, show_edge=False,
    )  # fmt: skip
    for name in heads:
        table.add_column(name, overflow="fold", justify="left" if name in left else "right")
    for cells, marked in rows:
        table.add_row(*map(escape, cells), style="bold red" if marked else "")
    return table


def as_text(table: Table, *, width: int = 100) -> str:
    """Write a table as text, at most this many characters wide."""
    from rich.console import Console  # takes longer to load than all of rich that reports need

    text = StringIO()
    Console(file=text, width=width, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())
