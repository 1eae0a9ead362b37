"""What every view can be kept as: a page, a plot, a table of numbers, or all in full."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld.common.durable_files import put_in_place
from flwr_kld.common.extras import require
from flwr_kld.views.panels import Theme, canvas

FORMATS = (".html", ".png", ".svg", ".csv", ".json")
"""Endings of the files that a view can be saved to."""
METRICS = ".prom"
"""Ending of Prometheus metrics, which some views can be saved as, too."""


def require_form(file: str | Path, forms: Sequence[str] = FORMATS) -> Path:
    """Return the file; raise ValueError if no such file is written, ImportError if none can be."""
    ending = Path(file).suffix
    if ending not in forms:
        raise ValueError(f"{file} must end in one of {', '.join(forms)}")
    if ending == METRICS:
        require("prometheus_client", extra="metrics")
    if ending == ".html":
        require("jinja2", extra="plots")
    if ending in (".html", ".png", ".svg"):
        require("matplotlib", extra="plots")
    return Path(file)


class Kept(ABC):
    """A view that files can be made of."""

    forms: ClassVar[tuple[str, ...]] = FORMATS
    """Endings of the files that it can be saved to."""

    @abstractmethod
    def numbers(self) -> Iterable[Mapping[str, Any]]:
        """Return rows of the numbers, for frames and files."""

    @abstractmethod
    def size(self, narrow: bool) -> tuple[float, float]:
        """Return width and height of the figure, in inches."""

    @abstractmethod
    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw it on a figure."""

    def plot(
        self,
        file: str | Path | None = None,
        *,
        title: str = "",
        dark: bool = False,
        narrow: bool = False,
    ) -> Any:
        """Draw it, into a file if one is given; return Matplotlib's figure."""
        drawn = canvas(file, self.size(narrow), title=title, dark=dark, narrow=narrow)
        with drawn as (figure, theme):
            self.draw(figure, theme, narrow=narrow)
        return figure

    @abstractmethod
    def to_html(self, **around: Any) -> str:
        """Return a page that stands by itself, or in `around` of a live one."""

    @abstractmethod
    def to_json(self) -> str:
        """Return all in full."""

    def to_csv(self) -> str:
        """Return the rows of `numbers`."""
        rows, text = list(self.numbers()), StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def to_frame(self) -> Any:
        """Return the same rows as a pandas data frame."""
        return require("pandas", extra="frames").DataFrame(list(self.numbers()))

    def save_metrics(self, file: Path) -> None:
        """Write Prometheus metrics: a view does whose `forms` has them."""
        raise NotImplementedError

    def save(self, file: str | Path, **titles: str) -> None:
        """Write a file; its ending says what: a page, a plot, a table, all in full, or metrics.

        Raises
        ------
        ValueError
            If it ends in none of `forms`.
        """
        place = require_form(file, self.forms)
        texts = {
            ".html": lambda: self.to_html(**titles), ".csv": self.to_csv, ".json": self.to_json,
        }  # fmt: skip
        if place.suffix in texts:
            put_in_place(place, texts[place.suffix]().encode())
        elif place.suffix == METRICS:
            self.save_metrics(place)
        else:
            self.plot(place, title=titles.get("title", ""))
