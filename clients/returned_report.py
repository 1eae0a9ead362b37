"""Stores the published reports that a server returns, in the folder that the node's operator names.

A returned report may be anybody's: a node takes one for the last check that it answered, and keeps
the newest of each reference. The reply is empty, whatever comes of it.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict

from flwr_kld.common.durable_files import put_in_place
from flwr_kld.trust.envelopes import PUBLISHED_REPORT
from flwr_kld.trust.terms import Terms

logger = logging.getLogger("flwr_kld")

REPORTS = "drift-reports"
"""Key of the node config: the folder."""
_AWAITED = "flwr_kld.awaited_report"
_LONGEST = 1 << 24
"""Characters of a report: some twenty times those of a check of 1,000 columns."""
_MOST = 8
"""References that a folder has reports of."""
_AHEAD = timedelta(days=1)
"""By which clocks may differ: a report of next year would keep all others out until then."""
_LONGEST_REASON = 500


def await_report(terms: Terms, context: Context) -> None:
    """Take a report of this check from now on, and of no other."""
    if REPORTS in context.node_config:
        context.state[_AWAITED] = ConfigRecord({"check": terms.check, "plan": terms.plan})


def take_report(message: Message, context: Context) -> Message:
    """Store the report of a message, or log why not."""
    if REPORTS in context.node_config:
        try:
            _store(message.content.get(PUBLISHED_REPORT), context)
        except Exception as error:  # whatever a forged one raises
            why = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
            # Escaped, as a terminal would obey what the server may have written there.
            logger.warning("the report that the server returned is not stored: %a", why)
    return Message(RecordDict(), reply_to=message)


def _store(record: object, context: Context) -> None:
    # Imported here: an app starts anew for every message, and few nodes store reports.
    from flwr_kld.report.node_comparison import began_at, stored_at
    from flwr_kld.report.report import Report

    folder = context.node_config[REPORTS]
    # A relative path could lead into the app's own folder, which the server fills.
    if not isinstance(folder, str) or not Path(folder).is_absolute():
        raise ValueError(f"{REPORTS} must be the absolute path of a folder")
    text = record.get(PUBLISHED_REPORT) if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"it is not a text of at most {_LONGEST:,} characters")
    report = Report.from_json(text)
    own = ConfigRecord({"check": report.check, "plan": report.compared.plan})
    if context.state.get(_AWAITED) != own:
        raise ValueError("it is not of the last check that this node answered, or was stored")
    if not re.fullmatch("[0-9a-f]{64}", report.compared.reference):
        raise ValueError("it names no reference")
    began = began_at(report)
    if began > datetime.now(UTC) + _AHEAD:
        raise ValueError("it is of a time to come")
    place, before = stored_at(Path(folder), report.compared.reference), None
    if not place.exists() and sum(1 for _ in place.parent.glob("*.json")) >= _MOST:
        raise ValueError(f"{folder} has reports of {_MOST} references: move away what is not used")
    with suppress(FileNotFoundError, ValueError):  # a damaged one is replaced
        before = began_at(Report.from_json(place.read_text("utf-8")))
    if before is not None and before >= began:
        raise ValueError("the stored one is not older")
    put_in_place(place, report.to_json().encode())
    del context.state[_AWAITED]
