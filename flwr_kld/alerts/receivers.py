"""Who takes notices: services behind webhooks, mailboxes, commands."""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from threading import Thread
from typing import Any, Protocol

from flwr_kld.alerts.command import Command
from flwr_kld.alerts.delivery import Delivery
from flwr_kld.alerts.notice import Notice
from flwr_kld.alerts.webhook import Webhook, is_this_machine


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
