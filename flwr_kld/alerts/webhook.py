"""Post a notice to a URL."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Thread
from urllib.parse import SplitResult, urlsplit

import requests
from requests import PreparedRequest

from flwr_kld.alerts.delivery import Delivery
from flwr_kld.kernel.arguments import keep, real, whole

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
