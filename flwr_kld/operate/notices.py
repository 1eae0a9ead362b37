"""What people are told: published values alone, in the forms that receivers take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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

    @property
    def text(self) -> str:
        """All of it, for people."""
        return "\n".join((self.title, *self.lines, *([self.link] if self.link else ())))

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


_MOST = 2000
"""Characters of a text; receivers refuse longer ones."""
_SEVERITY = {About.DRIFT: "error"}


def slack(notice: Notice) -> dict[str, Any]:
    """Return an incoming webhook's message: plain text, and a button for the link."""
    title = f"{_mark(notice)} {notice.title}"
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": _plain("\n".join((title, *notice.lines)))}
    ]
    if notice.link:
        button = {"type": "button", "text": _plain("Open"), "url": notice.link}
        blocks.append({"type": "actions", "elements": [button]})
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped[:_MOST], "blocks": blocks}


def teams(notice: Notice) -> dict[str, Any]:
    """Return a Workflows webhook's message: an adaptive card of text runs, which have no markup."""

    def run(text: str, **look: Any) -> dict[str, Any]:
        inline = {"type": "TextRun", "text": text[:_MOST], **look}
        return {"type": "RichTextBlock", "inlines": [inline]}

    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            run(f"{_mark(notice)} {notice.title}", weight="bolder", size="medium"),
            *map(run, notice.lines),
        ],
    }
    if notice.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": notice.link}]
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [content]}


def pagerduty(routing_key: str) -> Callable[[Notice], dict[str, Any]]:
    """Return the template of events (API v2): the end of a thing resolves its beginning."""

    def event(notice: Notice) -> dict[str, Any]:
        common = {"routing_key": routing_key, "dedup_key": notice.key}
        if notice.over:
            return {**common, "event_action": "resolve"}
        return {
            **common,
            "event_action": "trigger",
            "payload": {
                "summary": notice.title[:1024],
                "source": f"flwr-kld/{notice.population}",
                "severity": _SEVERITY.get(notice.about, "warning"),
                "custom_details": {"lines": [line[:_MOST] for line in notice.lines]},
            },
            "links": [{"href": notice.link, "text": "Open"}] if notice.link else [],
        }

    return event


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:_MOST], "emoji": False}


def _mark(notice: Notice) -> str:
    return "✓" if notice.over else "▲"
