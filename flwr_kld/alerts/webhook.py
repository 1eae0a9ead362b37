"""Post the report to a URL."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

import requests

from flwr_kld.alerts.delivery import Delivery
from flwr_kld.report import Report

SIGNATURE_HEADER = "X-Flwr-Kld-Signature-256"
"""``sha256=`` and the hexadecimal HMAC-SHA256 of the body, as GitHub's webhooks sign."""

_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a receiver that may well accept the same request later."""


@dataclass(frozen=True)
class Webhook:
    """POST the report's JSON; any answer of the 2xx class means delivered.

    No answer and answers such as 503 are followed by another attempt, after `pause` seconds and
    then twice as long each time. Requests carry the check's id as ``Idempotency-Key``. Redirects
    are not followed: they could lead the report away from HTTPS.

    Parameters
    ----------
    url : str
        ``https://…``, or ``http://…`` on this very machine. Its path may be a secret: logs name
        the host only.
    timeout : float
        Seconds to wait for a connection, and for each part of the answer.
    attempts : int
        Most attempts, >= 1.
    pause : float
        Seconds before the second attempt, >= 0.
    secret_variable : str, optional
        Environment variable that holds the key of the signature in `SIGNATURE_HEADER`.

    Raises
    ------
    ValueError
        If the URL is not safe to send to, a number is out of range, or the variable is not set.
    """

    url: str = field(repr=False)
    timeout: float = 10.0
    attempts: int = 4
    pause: float = 1.0
    secret_variable: str | None = None

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.attempts >= 1 and self.pause >= 0):
            raise ValueError("a webhook needs timeout > 0, attempts >= 1 and pause >= 0")
        parts = self._parts()
        local = parts.scheme == "http" and _is_this_machine(parts.hostname or "")
        if not parts.hostname or not (parts.scheme == "https" or local):
            raise ValueError(
                "a webhook's URL starts with https:// (or http:// for localhost): reports name "
                "fingerprints and results, and unencrypted ones can be read and changed"
            )
        if self.secret_variable is not None:
            self._secret()

    @property
    def name(self) -> str:
        """Name in logs."""
        parts = self._parts()
        return f"webhook {parts.scheme}://{parts.hostname}"

    def send(self, report: Report) -> Delivery:
        """Post the report, several times if need be."""
        body = report.to_json().encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "flwr-kld",
            "Idempotency-Key": report.check,
        }
        if self.secret_variable is not None:
            mac = hmac.new(self._secret(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE_HEADER] = f"sha256={mac}"
        attempt, pause = 0, self.pause
        while True:
            attempt += 1
            status, detail = self._post(body, headers)
            accepted = status is not None and 200 <= status < 300
            again = status is None or status in _TRY_AGAIN
            if accepted or not again or attempt == self.attempts:
                return Delivery(self.name, accepted, detail, attempt)
            time.sleep(pause)
            pause *= 2

    def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int | None, str]:
        """Status and description of the answer. Errors are named: their texts quote the URL."""
        try:
            with requests.post(
                self.url,
                data=body,
                headers=headers,
                timeout=self.timeout,
                allow_redirects=False,
                stream=True,  # what the receiver says beyond its status is not read
            ) as response:
                return response.status_code, f"status {response.status_code}"
        except requests.RequestException as error:
            return None, f"no answer ({type(error).__name__})"

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


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
