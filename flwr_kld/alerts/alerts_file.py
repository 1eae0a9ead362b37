"""The operator's file of alerts: TOML in, rules and addressees out."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from flwr_kld.alerts.command import Command
from flwr_kld.alerts.conditions import Rules
from flwr_kld.alerts.notice import About, Notice
from flwr_kld.alerts.receivers import Mail, Program, Receiver, Service
from flwr_kld.alerts.telling import Addressee, Quiet
from flwr_kld.alerts.templates import pagerduty, slack, teams
from flwr_kld.alerts.webhook import Webhook
from flwr_kld.codec.model import Model

_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_Name = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class _To(Model, what="a recipient in the alerts file"):
    name: _Name
    kind: Literal["slack", "teams", "pagerduty", "webhook", "mail", "command"]
    about: tuple[About, ...] = tuple(About)
    url: str | None = None
    url_variable: str | None = None
    secret_variable: str | None = None
    host: str | None = None
    port: int = 587
    sender: str | None = None
    to: tuple[_Name, ...] = ()
    user: str | None = None
    argv: tuple[_Name, ...] = ()
    deadline: Annotated[float, Field(gt=0, le=86_400)] = 60.0


@dataclass(frozen=True, kw_only=True)
class _Hours(Model, what="the quiet hours of the alerts file"):
    begin: time
    end: time
    zone: str = "UTC"
    urgent: tuple[About, ...] = (About.DRIFT,)


@dataclass(frozen=True, kw_only=True)
class _File(Model, what="the alerts file"):
    to: Annotated[tuple[_To, ...], Field(min_length=1)]
    link: str | None = None
    silent_slots: Annotated[int, Field(ge=1, le=1000)] = 2
    late_minutes: Annotated[float, Field(ge=0, le=10_000)] = 60.0
    dropouts: Annotated[float, Field(ge=0, le=1)] = 0.5
    quiet: _Hours | None = None


@dataclass(frozen=True)
class Alerts:
    """Whom to tell of what, and when."""

    rules: Rules  # From when on
    addressees: tuple[Addressee, ...]  # Whom
    quiet: Quiet | None  # When not

    @classmethod
    def load(cls, path: Path) -> Alerts:
        """Read a file; secrets come from the environment variables that it names."""
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not a valid TOML file: {error}") from None
        try:
            file = _File.from_file(raw)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        names = [one.name for one in file.to]
        if len(set(names)) < len(names):
            raise ValueError(f"{path}: two recipients share a name: give each its own")
        if file.link is not None and not file.link.startswith(("https://", "http://")):
            raise ValueError(f"{path}: link must be the address of a page, such as https://…")
        late = timedelta(minutes=file.late_minutes)
        return cls(
            Rules(file.silent_slots, late, file.dropouts, file.link),
            tuple(Addressee(one.name, _receiver(one), frozenset(one.about)) for one in file.to),
            _quiet(file.quiet) if file.quiet else None,
        )


def _quiet(hours: _Hours) -> Quiet:
    try:
        zone = ZoneInfo(hours.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {hours.zone!r}: give an IANA name") from None
    return Quiet(hours.begin, hours.end, zone, frozenset(hours.urgent))


def _receiver(to: _To) -> Receiver:
    if to.kind == "command":
        return Program(Command(to.argv, timeout=to.deadline))
    if to.kind == "mail":
        if not (to.host and to.sender and to.to):
            raise ValueError(f"{to.name}: mail needs host, sender and to")
        password = _secret(to, "secret_variable", to.secret_variable) if to.user else None
        return Mail(to.host, to.sender, to.to, to.port, to.user, password, to.deadline)
    if to.kind == "pagerduty":
        key = _secret(to, "secret_variable", to.secret_variable)
        return Service(Webhook(to.url or _PAGERDUTY, deadline=to.deadline), pagerduty(key))
    url = to.url or _secret(to, "url_variable", to.url_variable)
    if to.kind == "webhook":
        hook = Webhook(url, deadline=to.deadline, secret_variable=to.secret_variable)
        return Service(hook)
    templates: dict[str, Callable[[Notice], dict[str, Any]]] = {"slack": slack, "teams": teams}
    return Service(Webhook(url, deadline=to.deadline), templates[to.kind])


def _secret(to: _To, key: str, variable: str | None) -> str:
    if variable is None:
        raise ValueError(f"{to.name}: {key} must name the environment variable that holds it")
    value = os.environ.get(variable, "")
    if not value:
        raise ValueError(f"{to.name}: set the environment variable {variable}")
    return value
