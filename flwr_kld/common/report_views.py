"""Registers what makes the views of reports: reports are data, and import nothing that draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_make: Callable[[Any], Any] | None = None


def register_views(make: Callable[[Any], Any]) -> None:
    """Set what makes the view of a report: an object with `lines`, `to_html`, `plot` and so on."""
    global _make  # one for the process, as pandas has one plotting backend
    _make = make


def view_of(report: object) -> Any:
    """Return the view of a report; `RuntimeError` if nothing makes views."""
    if _make is None:
        raise RuntimeError("no views of reports are registered: the package registers them")
    return _make(report)
