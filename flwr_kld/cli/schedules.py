"""What a scheduler reads: a cron line, systemd units, or a Kubernetes CronJob."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from flwr_kld.cli.new_app import fill

NIGHTLY = "0 3 * * *"
Scheduler = Literal["cron", "systemd", "kubernetes"]
_FIELD = re.compile(r"\*|(\*/)?\d+|\d+-\d+|\d+(,\d+)+")
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def check_command(app: Path, connection: str, at: str, nodes: int | None = None) -> list[str]:
    """Return the command that checks on a deployment."""
    waits = "" if nodes is None else f" drift-nodes={nodes}"
    return [
        "flwr-kld", "check", str(app), connection, "--schedule", at,
        "--run-config", f'drift-sample=""{waits}',
    ]  # fmt: skip


def schedule_files(
    scheduler: Scheduler, at: str, check: Sequence[str], *, ledger: str, name: str
) -> dict[str, str]:
    """Return a scheduler's files, by their paths: it runs one idempotent check in each slot."""
    if scheduler == "cron":
        line = shlex.join(check).replace("%", r"\%")  # a bare % ends a line of cron
        return {"deploy/kld.cron": fill("cron", at=at, check=line, ledger=ledger)}
    if scheduler == "kubernetes":
        return {
            "deploy/cronjob.yaml": fill("cronjob.yaml", at=at, check=shlex.join(check), name=name)
        }
    line = shlex.join(check).replace("%", "%%").replace("$", "$$")
    unit = fill("service", check=line, ledger=ledger.replace("%", "%%"))
    return {
        "deploy/kld.service": unit,
        "deploy/kld.timer": fill("timer", calendar=on_calendar(at)),
    }


def on_calendar(at: str) -> str:
    """Write a cron expression as systemd's OnCalendar."""
    fields = at.split()
    minute, hour, day, month, weekday = fields
    if not all(_FIELD.fullmatch(field) for field in fields) or "*" not in (day, weekday):
        raise ValueError(
            f"systemd cannot express {at!r}: use --schedule cron, or run flwr-kld watch"
        )
    minute, hour = (field.replace("*/", "0/").replace("-", "..") for field in (minute, hour))
    day, month = (field.replace("*/", "1/").replace("-", "..") for field in (day, month))
    moments = f"*-{_padded(month)}-{_padded(day)} {_padded(hour)}:{_padded(minute)}:00"
    if weekday == "*":
        return moments
    days = re.sub(r"\d+", lambda number: _DAYS[int(number[0])], weekday).replace("-", "..")
    return f"{days} {moments}"


def _padded(field: str) -> str:
    return re.sub(r"\b\d\b", lambda digit: f"0{digit[0]}", field)
