"""Parts that pages share: templates, formats of numbers, and a plot for each kind of screen."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr_kld.common.extras import require
from flwr_kld.report.words import nats, when

TEMPLATES = Path(__file__).parent / "page"
"""Templates, and the files that pages which do not stand by themselves refer to."""
_DARK, _NARROW = "(prefers-color-scheme: dark)", "(max-width: 40rem)"
_SCREENS = (
    ("", False, False),
    (f"{_DARK} and {_NARROW}", True, True),
    (_DARK, True, False),
    (_NARROW, False, True),
)
"""Media queries, the first for the rest; whether a screen is dark, and whether it is a phone's."""
_PATTERN = re.compile("((?:[.#]{4}/){3}[.#]{4})")
"""A block pattern, as `BlockPatterns.name_of` writes it."""


@dataclass(frozen=True)
class Picture:
    """One rendering of a plot."""

    media: str  # Media query under which a browser takes it
    data: str  # A ``data:`` address that holds the SVG


def render(template: str, **values: Any) -> str:
    """Fill in a template of the folder ``page``; by default of a page that stands by itself."""
    return str(_environment().get_template(template).render({"layout": "base.html.j2", **values}))


@cache
def _environment() -> Any:
    jinja2 = require("jinja2", extra="plots")
    nothing = jinja2.utils.missing

    class Named(jinja2.Undefined):  # type: ignore[misc, name-defined]
        """A page may lack a variable, but no object an attribute that a template names."""

        def __init__(self, hint: str | None = None, obj: Any = nothing, **rest: Any) -> None:
            super().__init__(hint, obj, **rest)
            if obj is not nothing:
                self._fail_with_undefined_error()

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=Named
    )
    environment.filters.update(nats=nats, sentence=_sentence, when=when, drawn=_drawn)
    return environment


def pictures(plot: Callable[..., object]) -> list[Picture]:
    """Draw a plot for every kind of screen; the first is for the rest."""
    drawn = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "plot.svg"
        for media, dark, narrow in _SCREENS:
            plot(file, dark=dark, narrow=narrow)
            data = base64.b64encode(file.read_bytes()).decode()
            drawn.append(Picture(media, f"data:image/svg+xml;base64,{data}"))
    return drawn


def add_up(left_out: Iterable[Mapping[str, int]]) -> list[tuple[str, int]]:
    """Add up who was left out, by reason."""
    total: Counter[str] = Counter()
    for reasons in left_out:
        total.update(reasons)
    return list(total.items())


def _drawn(words: str) -> Any:
    """Draw the block patterns that words name; the rest is escaped, as in every text."""
    markup = require("jinja2", extra="plots").utils.markupsafe.Markup
    parts = _PATTERN.split(str(words))
    for place in range(1, len(parts), 2):
        rows = enumerate(parts[place].split("/"))
        ink = "".join(f"M{x} {y}h1v1h-1z" for y, row in rows for x in range(4) if row[x] == "#")
        parts[place] = markup(
            '<svg class="pattern" viewBox="0 0 4 4" role="img" aria-label="{}"><path d="{}"/></svg>'
        ).format(parts[place], ink)
    return markup("").join(parts)


def _sentence(words: str) -> str:
    """Start with a capital and end with a full stop."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")
