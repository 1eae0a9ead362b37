"""Which views reports are looked at through: the package that has them names them here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_views: Callable[[Any], Any] | None = None


def look_through(views: Callable[[Any], Any]) -> None:
    """Set what makes the view of a report: an object with `lines`, `to_html`, `plot` and so on."""
    global _views  # one for the process, as pandas has one plotting backend
    _views = views


def view_of(report: object) -> Any:
    """Return the view of a report; `RuntimeError` if nothing makes views."""
    if _views is None:
        raise RuntimeError("nothing shows reports: import flwr_kld")
    return _views(report)
