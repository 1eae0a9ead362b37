"""What plots are looked at through."""

from __future__ import annotations

import pytest


@pytest.fixture
def axes_of(tmp_path, monkeypatch):
    """Plot a series; returns its figure's two axes."""
    from matplotlib.figure import Figure

    figures = []

    class Kept(Figure):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            figures.append(self)

    monkeypatch.setattr("matplotlib.figure.Figure", Kept)

    def draw(series, name="history.png", **options):
        series.plot(tmp_path / name, **options)
        return figures[-1].axes

    return draw
