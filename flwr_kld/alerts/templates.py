"""Notices in the forms that receivers take. No text of a report can become markup or a mention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr_kld.alerts.notice import About, Notice

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
