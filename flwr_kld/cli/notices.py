"""Notices of drifts and of failed checks, sent to chats, pagers and mailboxes by Apprise."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flwr_kld.common.extras import require
from flwr_kld.report.column import drifted
from flwr_kld.report.report import Report
from flwr_kld.views.text import next_step

URLS = "FLWR_KLD_NOTIFY"
"""Environment variable with the Apprise URLs to notify, separated by spaces or line breaks."""

PAGES = "FLWR_KLD_PAGES"
"""Environment variable with the address at which readers of notices reach ``flwr-kld serve``."""

_NO_MARKUP = str.maketrans("<>[]@`*", "‹›［］＠'∗")
"""Characters that services turn into links, mentions and tags, and look-alikes of them."""


def drift_notice(key: str, report: Report, before: Report | None) -> str | None:
    """Return the notice of a check, or None unless columns drifted that had not before."""
    columns = drifted(report.columns)
    if before is not None and set(columns) <= set(drifted(before.columns)):
        return None
    return "\n".join(
        [
            f"{report.started[:10]}: {report.summary}",
            *(f"{name}: {one}" for name in columns if (one := report.columns[name].sentence)),
            f"Next: {next_step(report)}",
            f"Check {key}.",
        ]
    )


def shown_at(population: str, environment: Mapping[str, str]) -> str:
    """Say where a notice's reader finds more: a live page's address, or else a command."""
    pages = environment.get(PAGES, "").rstrip("/")
    if pages:
        return f"{pages}/checks?population={quote(population)}"
    return f"flwr-kld report report.html --population {population} writes a page of all checks."


class Notifier:
    """Sends notices to services, whose URLs are secrets that no message and no log quotes."""

    def __init__(self, urls: list[str], source: str) -> None:
        apprise = require("apprise", extra="alerts")
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # what it logs may quote URLs
        asset = apprise.AppriseAsset(app_id="flwr-kld", storage_mode="memory", http_redirects=False)
        self._services: dict[str, Any] = {}
        for number, url in enumerate(urls, 1):
            service = apprise.Apprise(asset=asset)
            if not service.add(url):
                raise ValueError(
                    f"URL {number} of {len(urls)} in {source} is not one that Apprise can read: "
                    "its documentation has the form of each service's URL"
                )
            self._services[f"URL {number} of {source}"] = service

    @classmethod
    def of(cls, file: Path | None, environment: Mapping[str, str]) -> Notifier | None:
        """Read URLs from a file, otherwise from the environment; None if there are none."""
        urls = _read_private(file) if file is not None else environment.get(URLS, "")
        if file is not None and not urls.split():
            raise ValueError(f"{file} is empty: write one Apprise URL on each line")
        return cls(urls.split(), str(file or URLS)) if urls.split() else None

    def send(self, title: str, notice: str) -> Iterator[str]:
        """Send a notice to every service; yield why it did not reach one."""
        for name, service in self._services.items():
            try:
                accepted = service.notify(
                    title=title.translate(_NO_MARKUP),
                    body=notice.translate(_NO_MARKUP),
                    body_format="text",
                )
                why = "the service did not accept it"
            except Exception as error:  # its text may quote the URL
                accepted, why = False, type(error).__name__
            if not accepted:
                yield f"no notice was sent to {name}: {why}; try the URL with the command apprise"


def _read_private(file: Path) -> str:
    with file.open("rb") as opened:
        if os.name == "posix" and os.fstat(opened.fileno()).st_mode & 0o077:
            raise ValueError(f"{file} holds secrets and others can read it: run chmod 600 {file}")
        try:
            return opened.read().decode()
        except UnicodeDecodeError:  # its text would quote what the file holds
            raise ValueError(f"{file} is not UTF-8 text: write one URL on each line") from None
