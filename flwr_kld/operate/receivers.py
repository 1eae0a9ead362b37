"""What people are told, published values alone, and who takes it: services and commands."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from ipaddress import ip_address
from pathlib import PurePath
from threading import Thread
from typing import Any, Protocol

from flwr_kld._extras import require
from flwr_kld.kernel.arguments import keep, real, several, text


class About(StrEnum):
    """What a notice is about."""

    DRIFT = "drift"
    """The last check that decided found a drift."""
    SILENCE = "silence"
    """No check has had a number for some slots."""
    BUDGET = "budget"
    """The budget has no room for the next check."""
    DROPOUTS = "dropouts"
    """Many of the clients that were asked are not in the sum."""


@dataclass(frozen=True)
class Notice:
    """One thing to tell."""

    about: About  # What it is about
    population: str  # Whose
    # False if it holds, True if it does not: told to those only who were told that it did
    over: bool
    title: str  # A line
    lines: tuple[str, ...] = ()  # What else a reader should know
    link: str | None = None  # Where more is to be seen

    @property
    def key(self) -> str:
        """Name under which receivers know beginning and end as one."""
        return f"flwr-kld/{self.population}/{self.about}"


@dataclass(frozen=True)
class Delivery:
    """One alert, sent or not."""

    alert: str  # Name of the alert, without secrets
    delivered: bool  # Whether the receiver accepted it
    detail: str  # Its answer, or why there was none


class Receiver(Protocol):
    """Takes notices."""

    @property
    def deadline(self) -> float:
        """Seconds after which a delivery is given up."""
        ...

    def take(self, notice: Notice) -> Delivery:
        """Deliver it; failures that can be expected are returned, not raised."""
        ...


_LONGEST = 86400.0
"""Seconds; threads take no endless ones."""
_NO_MARKUP = str.maketrans("<>[]@`*", "‹›［］＠'∗")
"""Characters of which services make links, mentions and tags, and what looks like them."""


@dataclass(frozen=True)
class AppriseService:
    """One of the chats, pagers and mailboxes that Apprise knows, named by its URL."""

    url: str = field(repr=False)  # Holds secrets: logs name its scheme only
    deadline: float = 60.0  # Seconds for all of it, > 0, whatever the service does

    def __post_init__(self) -> None:
        text("url", self.url)
        keep(self, deadline=_deadline(self.deadline))
        service = _apprise().Apprise.instantiate(self.url)
        if service is None:
            raise ValueError(
                f"Apprise cannot read the URL, of scheme {self._scheme!r}: its documentation has "
                "the form of each service's"
            )
        plain = service.protocol or ()
        unencrypted = self._scheme in ((plain,) if isinstance(plain, str) else plain)
        if unencrypted and not service.secure and not is_loopback(service.host or ""):
            raise ValueError(
                f"{self._scheme}:// is not encrypted: notices name results, so use the service's "
                "encrypted scheme, such as jsons:// or mailtos://"
            )

    @property
    def name(self) -> str:
        """Name in logs."""
        return f"apprise {self._scheme}"

    @property
    def _scheme(self) -> str:
        return self.url.partition("://")[0].lower()

    def take(self, notice: Notice) -> Delivery:
        """Send it, in a thread that is left behind when its time is over."""
        found: list[Delivery] = []
        sending = Thread(target=lambda: found.append(self._send(notice)), daemon=True)
        sending.start()
        sending.join(self.deadline)
        late = Delivery(self.name, False, f"no answer within {self.deadline:g} s")
        return found[0] if found else late

    def _send(self, notice: Notice) -> Delivery:
        apprise = _apprise()
        asset = apprise.AppriseAsset(app_id="flwr-kld", storage_mode="memory", http_redirects=False)
        service = apprise.Apprise(asset=asset)
        service.add(self.url)
        lines = [line.translate(_NO_MARKUP) for line in notice.lines or (notice.title,)]
        try:
            accepted = service.notify(
                title=f"flwr-kld: {' '.join(notice.title.split())}".translate(_NO_MARKUP),
                body="\n".join([*lines, *([notice.link] if notice.link else [])]),
                notify_type="success" if notice.over else "warning",
                body_format="text",
            )
        except Exception as error:  # its text may quote the URL
            return Delivery(self.name, False, type(error).__name__)
        detail = "accepted" if accepted else "not accepted: try the URL with Apprise's own command"
        return Delivery(self.name, bool(accepted), detail)


@cache
def _apprise() -> Any:
    apprise = require("apprise", extra="alerts")
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # what it logs may quote URLs
    return apprise


@dataclass(frozen=True)
class Command:
    """A program, run without a shell, with the notice as JSON on standard input."""

    # Exit status 0 means delivered. Standard output is dropped, so that it cannot mix with a report
    # printed there; standard error is left as it is.

    argv: Sequence[str]  # Program and arguments. They may hold secrets: logs name the program only.
    deadline: float = 60.0  # Seconds, > 0, after which the program and what it started are killed

    def __post_init__(self) -> None:
        argv = several("an alert's command", self.argv)
        if not argv or not argv[0] or not all(isinstance(part, str) for part in argv):
            raise ValueError("an alert's command must be a list: the program, then its arguments")
        keep(self, argv=argv, deadline=_deadline(self.deadline))

    @property
    def name(self) -> str:
        """Name in logs."""
        return f"command {PurePath(self.argv[0]).name}"

    def __repr__(self) -> str:
        return f"Command({PurePath(self.argv[0]).name!r}, deadline={self.deadline:g})"

    def take(self, notice: Notice) -> Delivery:
        """Run it once, and wait for its end."""
        try:
            process = subprocess.Popen(
                list(self.argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else type(error).__name__
            return Delivery(self.name, False, f"it cannot be started: {why}")
        try:
            given = json.dumps({**asdict(notice), "key": notice.key})
            process.communicate(given.encode(), timeout=self.deadline)
        except subprocess.TimeoutExpired:
            return Delivery(self.name, False, f"killed after {self.deadline:g} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Delivery(self.name, process.returncode == 0, f"exit status {process.returncode}")


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


def _deadline(seconds: object) -> float:
    return real("deadline", seconds, above=0, most=_LONGEST, unit="seconds")
