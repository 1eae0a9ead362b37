"""Registers what makes the views of reports: reports are data, and import nothing that draws."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
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


class Viewed:
    """What can be looked at: in a line, as text, in a notebook, as a page, a frame, a plot, a file.

    A class of it says what came out in its `summary`; the registered view does all else.
    """

    @property
    def summary(self) -> str:
        """What came out, in one line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary}>"

    def __str__(self) -> str:
        return "\n".join(view_of(self).lines())

    def _repr_html_(self) -> str:
        """Return what it says for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_html(self, **titles: str) -> str:
        """Return a page that stands by itself."""
        return str(view_of(self).to_html(**titles))

    def to_frame(self) -> Any:
        """Return its numbers as a pandas data frame."""
        return view_of(self).to_frame()

    def plot(self, file: str | Path | None = None, **look: Any) -> Any:
        """Draw it, into a file if one is given; return Matplotlib's figure."""
        return view_of(self).plot(file, **look)

    def save(self, file: str | Path) -> None:
        """Write a file; its ending says what: .html, .png, .svg, .csv or .json."""
        view_of(self).save(file)
