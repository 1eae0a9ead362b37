"""What people are told, published values alone, and who takes it: services, webhooks, commands."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from ipaddress import ip_address
from pathlib import PurePath
from threading import Thread
from typing import Any, ClassVar, Self
from urllib.parse import SplitResult, urlsplit

import requests
from requests import PreparedRequest

from flwr_kld._extras import require
from flwr_kld.kernel.arguments import keep, real, several, text, whole


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

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        return {
            "about": str(self.about),
            "population": self.population,
            "over": self.over,
            "title": self.title,
            "lines": list(self.lines),
            "link": self.link,
            "key": self.key,
        }


@dataclass(frozen=True)
class Delivery:
    """One alert, sent or not."""

    alert: str  # Name of the alert, without secrets
    delivered: bool  # Whether the receiver accepted it
    detail: str  # Its answer, or why there was none
    attempts: int = 1  # How often it was tried


_KINDS: dict[str, type[Receiver]] = {}
"""Every receiver that a process knows; a class enters itself when it is defined."""


class Receiver(ABC):
    """Takes notices. One of your own says its `kind`, by which an alerts file names it."""

    kind: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if (kind := cls.__dict__.get("kind")) is None:
            return
        known = _KINDS.get(kind)
        if known is not None and known.__module__ != cls.__module__:
            raise ValueError(
                f"a receiver of kind {kind!r} exists, in {known.__module__}: give {cls.__name__} "
                "another kind"
            )
        _KINDS[kind] = cls  # also anew, as a notebook's cell defines it when it is run again

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Make it of what a file says beside name, kind and about; by default, its arguments."""
        return cls(**fields)

    @abstractmethod
    def take(self, notice: Notice) -> Delivery:
        """Deliver it; failures that can be expected are returned, not raised."""


def receiver_from(kind: str, fields: Mapping[str, Any]) -> Receiver:
    """Make a receiver of what a file says."""
    if kind not in _KINDS:
        raise ValueError(
            f"there is no kind {kind!r}: give one of {', '.join(sorted(_KINDS))}, or name the "
            "module of a receiver of your own in modules"
        )
    try:
        return _KINDS[kind].from_fields(fields)
    except TypeError as error:  # names of arguments, not their values
        raise ValueError(str(error)) from None


SIGNATURE_HEADER = "X-Flwr-Kld-Signature-256"
"""``sha256=`` and the hexadecimal HMAC-SHA256 of the body, as GitHub's webhooks sign."""
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a receiver that may well accept the same request later."""
_LONGEST = 86400.0
"""Seconds; sockets and threads take no endless ones."""


@dataclass(frozen=True)
class Webhook(Receiver):
    """POST the notice as JSON; any answer of the 2xx class means delivered."""

    # No answer and answers such as 503 are followed by another attempt, after `pause` seconds and
    # then twice as long each time, and all of it ends after `deadline` seconds. Requests carry the
    # notice's key as ``Idempotency-Key``, which tells attempts of one notice from another.
    # Redirects are not followed: they could lead the notice away from HTTPS.

    kind: ClassVar[str] = "webhook"

    # ``https://…``, or ``http://…`` on this very machine. Its path may be a secret: logs name the
    # host only.
    url: str = field(repr=False)
    timeout: float = 10.0  # Seconds to wait for a connection, and for each part of the answer
    attempts: int = 4  # Most attempts, >= 1
    pause: float = 1.0  # Seconds before the second attempt, >= 0
    # Seconds for all attempts and pauses together, > 0, whatever the receiver does: `timeout` alone
    # would wait for ever on one that sends a byte now and then
    deadline: float = 60.0
    # Environment variable that holds the key of the signature in `SIGNATURE_HEADER`
    secret_variable: str | None = None

    def __post_init__(self) -> None:
        text("url", self.url)
        keep(
            self,
            timeout=real("timeout", self.timeout, above=0, most=_LONGEST, unit="seconds"),
            attempts=whole("attempts", self.attempts, least=1),
            pause=real("pause", self.pause, least=0, most=_LONGEST, unit="seconds"),
            deadline=_deadline(self.deadline),
        )
        parts = self._parts()
        local = parts.scheme == "http" and self.stays_here
        if not parts.hostname or not (parts.scheme == "https" or local):
            raise ValueError(
                "a webhook's URL starts with https:// (or http:// for localhost): notices name "
                "results, and unencrypted ones can be read and changed"
            )
        try:
            port, _ = parts.port, parts.hostname.encode("idna")
            PreparedRequest().prepare_url(self.url, None)
        except (ValueError, requests.RequestException):  # their texts quote the URL
            port = 0
        if port == 0:
            raise ValueError(
                f"{parts.netloc.rpartition('@')[2]!r} is not a host, or a host and a port, that a "
                "webhook can be sent to: write https://hooks.example.org:8443/…"
            )
        if self.secret_variable is not None:
            self._secret()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Read the URL from the environment if a variable is named."""
        return cls(**_with_url(fields))

    @property
    def name(self) -> str:
        """Name in logs."""
        parts = self._parts()
        return f"webhook {parts.scheme}://{parts.hostname}"

    @property
    def stays_here(self) -> bool:
        """Whether what is posted never leaves this machine."""
        return is_this_machine(self._parts().hostname or "")

    def take(self, notice: Notice) -> Delivery:
        """Post it, several times if need be."""
        state = "over" if notice.over else "open"
        body = json.dumps(notice.to_dict(), ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "flwr-kld",
            "Idempotency-Key": _header(f"{notice.key}/{state}"),
        }
        if self.secret_variable is not None:
            mac = hmac.new(self._secret(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE_HEADER] = f"sha256={mac}"
        sending = _Sending(self, body, headers)
        sending.start()
        sending.join(self.deadline)
        late = Delivery(self.name, False, f"no answer within {self.deadline:g} s", sending.attempts)
        return sending.delivery or late

    def _parts(self) -> SplitResult:
        return urlsplit(self.url)

    def _secret(self) -> bytes:
        return _from_environment("secret_variable", self.secret_variable).encode()


class _Sending(Thread):
    """The attempts of one alert, in a thread that is left behind when its time is over."""

    # Nothing else bounds a request: the sockets' time-outs begin anew with each byte, and looking
    # up a host has none.

    def __init__(self, hook: Webhook, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._hook, self._body, self._headers = hook, body, headers
        self.attempts = 0
        self.delivery: Delivery | None = None

    def run(self) -> None:
        """Post it until it is accepted, refused, or too late."""
        hook, pause, end = self._hook, self._hook.pause, time.monotonic() + self._hook.deadline
        while True:
            self.attempts += 1
            status, detail = self._post()
            accepted = status is not None and 200 <= status < 300
            again = status is None or status in _TRY_AGAIN
            last = self.attempts >= hook.attempts or time.monotonic() + pause >= end
            if accepted or not again or last:
                self.delivery = Delivery(hook.name, accepted, detail, self.attempts)
                return
            time.sleep(pause)
            pause *= 2

    def _post(self) -> tuple[int | None, str]:
        """Status and description of the answer. Errors are named: their texts quote the URL."""
        try:
            with requests.Session() as session:
                session.trust_env = not self._hook.stays_here  # a proxy would lead it away
                answer = session.post(
                    self._hook.url,
                    data=self._body,
                    headers=self._headers,
                    timeout=self._hook.timeout,
                    allow_redirects=False,
                    stream=True,  # what the receiver says beyond its status is not read
                )
                return answer.status_code, f"status {answer.status_code}"
        except Exception as error:  # requests lets some of urllib3's through
            return None, f"no answer ({type(error).__name__})"


_NO_MARKUP = str.maketrans("<>[]@`*", "‹›［］＠'∗")
"""Characters of which services make links, mentions and tags, and what looks like them."""


@dataclass(frozen=True)
class AppriseService(Receiver):
    """One of the chats, pagers and mailboxes that Apprise knows, named by its URL."""

    kind: ClassVar[str] = "apprise"

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
        if unencrypted and not service.secure and not is_this_machine(service.host or ""):
            raise ValueError(
                f"{self._scheme}:// is not encrypted: notices name results, so use the service's "
                "encrypted scheme, such as jsons:// or mailtos://"
            )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Read the URL from the environment if a variable is named."""
        return cls(**_with_url(fields))

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
class Command(Receiver):
    """A program, run without a shell, with the notice as JSON on standard input."""

    # Exit status 0 means delivered. Standard output is dropped, so that it cannot mix with a report
    # printed there; standard error is left as it is.

    kind: ClassVar[str] = "command"

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
            process.communicate(json.dumps(notice.to_dict()).encode(), timeout=self.deadline)
        except subprocess.TimeoutExpired:
            return Delivery(self.name, False, f"killed after {self.deadline:g} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Delivery(self.name, process.returncode == 0, f"exit status {process.returncode}")


def is_this_machine(host: str) -> bool:
    """Whether what is sent to a host never leaves this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _deadline(seconds: object) -> float:
    return real("deadline", seconds, above=0, most=_LONGEST, unit="seconds")


def _with_url(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the name of an environment variable by the URL that it holds."""
    found = dict(fields)
    variable = found.pop("url_variable", None)
    if "url" not in found:
        found["url"] = _from_environment("url_variable", variable)
    return found


def _from_environment(key: str, variable: str | None) -> str:
    if not isinstance(variable, str):
        raise ValueError(f"{key} must name the environment variable that holds it")
    value = os.environ.get(variable, "")
    if not value:
        raise ValueError(f"set the environment variable {variable}")
    return value


def _header(text: str) -> str:
    """Write a text as a header may hold it: names of populations may have any characters."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
