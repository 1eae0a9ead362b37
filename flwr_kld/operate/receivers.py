"""Who takes notices: services behind webhooks, mailboxes, commands."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import smtplib
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import PurePath
from threading import Thread
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import requests
from requests import PreparedRequest

from flwr_kld.kernel.arguments import keep, real, several, whole
from flwr_kld.operate.notices import Notice


@dataclass(frozen=True)
class Delivery:
    """One alert, sent or not."""

    alert: str  # Name of the alert, without secrets
    delivered: bool  # Whether the receiver accepted it
    detail: str  # Its answer, or why there was none
    attempts: int = 1  # How often it was tried


SIGNATURE_HEADER = "X-Flwr-Kld-Signature-256"
"""``sha256=`` and the hexadecimal HMAC-SHA256 of the body, as GitHub's webhooks sign."""
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a receiver that may well accept the same request later."""
_LONGEST = 86400.0
"""Seconds; sockets and threads take no endless ones."""


@dataclass(frozen=True)
class Webhook:
    """POST JSON; any answer of the 2xx class means delivered.

    No answer and answers such as 503 are followed by another attempt, after `pause` seconds and
    then twice as long each time, and all of it ends after `deadline` seconds. Requests carry the
    notice's key as ``Idempotency-Key``. Redirects are not followed: they could lead the notice away
    from HTTPS.
    """

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
        keep(
            self,
            timeout=real("timeout", self.timeout, above=0, most=_LONGEST, unit="seconds"),
            attempts=whole("attempts", self.attempts, least=1),
            pause=real("pause", self.pause, least=0, most=_LONGEST, unit="seconds"),
            deadline=real("deadline", self.deadline, above=0, most=_LONGEST, unit="seconds"),
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

    @property
    def name(self) -> str:
        """Name in logs."""
        parts = self._parts()
        return f"webhook {parts.scheme}://{parts.hostname}"

    @property
    def stays_here(self) -> bool:
        """Whether what is posted never leaves this machine."""
        return is_this_machine(self._parts().hostname or "")

    def post(self, body: bytes, key: str) -> Delivery:
        """Post some JSON, several times if need be."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "flwr-kld",
            "Idempotency-Key": key,
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
        secret = os.environ.get(self.secret_variable or "", "")
        if not secret:
            raise ValueError(
                f"the webhook's secret is missing: set the environment variable "
                f"{self.secret_variable}"
            )
        return secret.encode()


class _Sending(Thread):
    """The attempts of one alert, in a thread that is left behind when its time is over.

    Nothing else bounds a request: the sockets' time-outs begin anew with each byte, and looking up
    a host has none.
    """

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


def is_this_machine(host: str) -> bool:
    """Whether what is sent to a host never leaves this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Command:
    """A program and its arguments, run without a shell; exit status 0 means delivered.

    Standard output is dropped, so that it cannot mix with a report printed there; standard error is
    left as it is.
    """

    argv: Sequence[str]  # Program and arguments. They may hold secrets: logs name the program only.
    timeout: float = 60.0  # Seconds, > 0, after which the program and what it started are killed

    def __post_init__(self) -> None:
        argv = several("an alert's command", self.argv)
        if not argv or not argv[0] or not all(isinstance(part, str) for part in argv):
            raise ValueError("an alert's command must be a list: the program, then its arguments")
        keep(self, argv=argv, timeout=real("timeout", self.timeout, above=0, unit="seconds"))

    @property
    def name(self) -> str:
        """Name in logs."""
        return f"command {PurePath(self.argv[0]).name}"

    def __repr__(self) -> str:
        return f"Command({PurePath(self.argv[0]).name!r}, timeout={self.timeout:g})"

    def run(self, given: bytes) -> Delivery:
        """Run it once with some bytes on its standard input, and wait for its end."""
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
            process.communicate(given, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return Delivery(self.name, False, f"killed after {self.timeout:g} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Delivery(self.name, process.returncode == 0, f"exit status {process.returncode}")


class Receiver(Protocol):
    """Takes a notice; failures that can be expected are returned, not raised."""

    def take(self, notice: Notice) -> Delivery:
        """Deliver it."""
        ...


@dataclass(frozen=True)
class Service:
    """A service with a webhook."""

    hook: Webhook  # Where it is, how often and for how long it is tried
    template: Callable[[Notice], dict[str, Any]] = Notice.to_dict  # Makes its message

    def take(self, notice: Notice) -> Delivery:
        """Post the message; the key tells attempts of one notice from another."""
        state = "over" if notice.over else "open"
        body = json.dumps(self.template(notice), ensure_ascii=False).encode()
        return self.hook.post(body, _header(f"{notice.key}/{state}"))


@dataclass(frozen=True)
class Program:
    """A command that takes the notice as JSON on its standard input."""

    command: Command

    def take(self, notice: Notice) -> Delivery:
        """Run it once."""
        return self.command.run(json.dumps(notice.to_dict()).encode())


@dataclass(frozen=True)
class Mail:
    """Mailboxes, by a server that encrypts."""

    host: str  # The mail server: STARTTLS is required, unless it is on this machine
    sender: str  # Addresses
    to: tuple[str, ...]
    port: int = 587
    user: str | None = None  # To log in with
    password: str | None = field(default=None, repr=False)
    deadline: float = 60.0  # Seconds for all of it, > 0, whatever the server does

    @property
    def name(self) -> str:
        """Name in logs."""
        return f"mail by {self.host}"

    def take(self, notice: Notice) -> Delivery:
        """Send it, in a thread that is left behind when its time is over."""
        found: list[Delivery] = []
        sending = Thread(target=lambda: found.append(self._send(notice)), daemon=True)
        sending.start()
        sending.join(self.deadline)
        late = Delivery(self.name, False, f"no answer within {self.deadline:g} s")
        return found[0] if found else late

    def _send(self, notice: Notice) -> Delivery:
        message = EmailMessage()
        message["Subject"] = f"[flwr-kld] {' '.join(notice.title.split())}"
        message["From"], message["To"] = self.sender, ", ".join(self.to)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(notice.text)
        try:
            with smtplib.SMTP(self.host, self.port, timeout=self.deadline) as server:
                if not is_this_machine(self.host):
                    server.starttls(context=ssl.create_default_context())
                if self.user is not None:
                    server.login(self.user, self.password or "")
                refused = server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:  # their texts may quote what was sent
            return Delivery(self.name, False, type(error).__name__)
        return Delivery(self.name, not refused, f"{len(refused)} of {len(self.to)} refused")


def _header(text: str) -> str:
    """Write a text as a header may hold it: names of populations may have any characters."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
