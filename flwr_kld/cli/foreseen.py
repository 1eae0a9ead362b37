"""What checks of an app that ``init`` writes will find, and what would let them find more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.cli.common import MONTHLY, messages
from flwr_kld.cli.new_app import STANDING_DELTA, Proposal
from flwr_kld.cli.plan import Who, trust_of
from flwr_kld.cli.sample import Sample
from flwr_kld.cli.schedule import Cron, most_in_window
from flwr_kld.kernel import Guarantee
from flwr_kld.table.frame import texts_in

if TYPE_CHECKING:
    from flwr_kld.planner import Setting
    from flwr_kld.planner.forecast import Forecast
    from flwr_kld.reference import Reference

_MOST_COLUMNS = 6
"""That are forecast, of more those of few to many values: each takes a second or two."""

_RARER = {"a week": "0 3 * * 1", "a month": MONTHLY}
"""Schedules that leave each check more of the budget."""


def foreseen(rows: Sample, proposal: Proposal, with_ids: int) -> Iterator[str]:
    """Yield a line about the proposal, and about better choices: ids, or a rarer schedule.

    With ids there would be so many checks a year.
    """
    total = len(next(iter(rows.rows.values())))
    if rows.made_up:
        return
    columns = len(rows.table.columns)
    some = (
        ""
        if columns <= _MOST_COLUMNS
        else f" of {_MOST_COLUMNS} of {columns} columns, from few values to many"
    )
    with messages.status("forecasting what checks will find"):
        now = _forecast(rows, proposal, total)
        if not now:
            return
        words = _in_words(now)
        yield f"forecast{some}, if {proposal.clients} clients hold {total:,} rows together: {words}"
        better, identifier = replace(proposal, nights=with_ids), _identifier(rows)
        if identifier and better.is_standing and not proposal.is_standing:
            words = _in_words(_forecast(rows, better, total))
            yield f"with --id {identifier}, {with_ids:,} checks a year: {words}"
        if not any(one.seen_from for one in now):
            yield from _rarer(rows, proposal, total)


def _rarer(rows: Sample, proposal: Proposal, total: int) -> Iterator[str]:
    """Yield a line about the most frequent schedule whose checks can clear every column, or any."""
    best, most = "", 0
    for how_often, at in _RARER.items():
        checks = most_in_window(Cron(at), proposal.budget.window_days)
        rarer = replace(proposal, checks=checks)
        if checks < proposal.checks and rarer.epsilon > proposal.epsilon:
            found = _forecast(rows, rarer, total)
            clear = sum(one.seen_from is not None for one in found)
            if clear > most:
                words = f"once {how_often}, with epsilon {rarer.epsilon:g} each"
                best, most = f"with --schedule '{at}', {words}: {_in_words(found)}", clear
            if clear == len(found):
                break
    if best:
        yield best


def _identifier(rows: Sample) -> str | None:
    """Return a column that is left out and whose values are all there, and all different."""
    for name in rows.table.left_out:
        values = texts_in(rows.rows[name]) if name in rows.rows else []
        if len(values) and len(set(values)) == len(values) and None not in values:
            return name
    return None


def _forecast(rows: Sample, proposal: Proposal, total: int) -> Sequence[Forecast]:
    """Forecast a check of so many rows in all, column by column."""
    # Imported here: the other commands do without it.
    from flwr_kld.planner import Setting, forecast

    clients = proposal.size or proposal.clients
    nights = proposal.nights if proposal.is_standing else 1
    who: Who = "two-aggregators" if proposal.aggregators else "trusted"
    promised = Guarantee(proposal.epsilon, STANDING_DELTA if nights > 1 else 0.0)
    try:
        setting = Setting(
            clients=clients,
            records=total / proposal.clients,
            trust=trust_of(who, promised, clients, nights),
            population=proposal.clients,
        )
        if len(rows.table.columns) <= _MOST_COLUMNS:
            return forecast(rows.reference, setting).by_column
        found = [forecast(own, among).by_column for own, among in _some_columns(rows, setting)]
        return [one for of_column in found for one in of_column]
    except ValueError:  # too few rows to say anything
        return ()


def _some_columns(rows: Sample, setting: Setting) -> Iterator[tuple[Reference, Setting]]:
    """Yield columns of few to many values, each with the noise and the rate of one among all."""
    columns = sorted(rows.reference.columns.items(), key=lambda one: one[1].domain.size)
    trust = setting.trust.over(len(columns))
    for at in np.linspace(0, len(columns) - 1, _MOST_COLUMNS).round().astype(int).tolist():
        name, own = columns[at]
        yield own, replace(setting, trust=trust, threshold=rows.table.thresholds.get(name))


def _in_words(columns: Sequence[Forecast]) -> str:
    """Say which drifts are found, and which are excluded where nothing drifted."""
    if not columns:
        return ""
    finds = _range([one.smallest for one in columns], "finds drifts of {} nats")
    sees = _range([one.seen_from for one in columns], "excludes drifts above {} nats")
    finds = finds or "cannot find any drift"
    return f"a check {finds}; where nothing moved, it {sees or 'is inconclusive'}"


def _range(nats: Sequence[float | None], words: str) -> str:
    known = sorted(one for one in nats if one is not None)
    if not known:
        return ""
    ends = dict.fromkeys(f"{one:.2g}" for one in (known[0], known[-1]))
    where = f" in {len(known)} of {len(nats)} columns" if len(known) < len(nats) else ""
    return words.format(" to ".join(ends)) + where
