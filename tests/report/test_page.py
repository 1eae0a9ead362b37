"""The page as Chromium shows it, on phones and wide screens, light and dark."""

import io
from pathlib import Path

import jinja2
import numpy as np
import pytest
from matplotlib.image import imread
from report.browser import CHROMIUM, browser
from report.samples import altered, learnt, mornings, nights
from report.tables import NAMES, table_report

from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries, RoundSeries
from flwr_kld.views.page import _environment

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")
screens = pytest.mark.parametrize(("dark", "width"), [(False, 390), (True, 1280)])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def checks_page(path: Path) -> None:
    checks = nights(9, drift_from=7)
    long = {f"a reason that takes many words to tell {'x' * 80}": 3}
    checks[-1] = Point(9, altered(checks[-1].report, dropouts=long))
    CheckSeries(checks).save(path, title="Fleet")


def predictor_page(path: Path) -> None:
    rounds = mornings(9, change_at=7)
    last = learnt(10, "summer")
    long = {"a candidate with a name of many words " + "x" * 80: 0.05}
    reason = {f"a reason that takes many words to tell {'x' * 80}": 3}
    rounds.append(
        Point(10, altered(last, weights=last.reading.weights | long, mixture={}, dropouts=reason))
    )
    RoundSeries(rounds).save(path, title="Traffic")


def tables_page(path: Path) -> None:
    names = dict.fromkeys((*NAMES, "a column with a name of many words " + "x" * 80), 0.0)
    still, moved = table_report(names), table_report(names | dict.fromkeys(NAMES[:2], 0.3))
    CheckSeries([still, None, moved]).save(path, title="Fleet's table")


@pytest.fixture(scope="module", params=[checks_page, predictor_page, tables_page])
def file(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    request.param(path)
    return path


@screens
def test_the_page_fits_and_nothing_complains(page, file, dark, width):
    page.complaints.clear()
    page.open(file, dark=dark, width=width)
    assert page.complaints == []
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask("document.querySelector('.outcome').getBoundingClientRect().bottom") < 400
    pixels = imread(io.BytesIO(page.picture()))[..., :3]
    assert pixels.shape[1] == width
    assert (np.median(pixels) < 0.25) if dark else (np.median(pixels) > 0.85)


@pytest.mark.parametrize("dark", [False, True])
def test_accessibility_rules_are_kept(page, file, dark):
    page.open(file, dark=dark, width=1280)
    page.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.faults() == []
    page.ask("document.documentElement.lang = ''")
    assert "html-has-lang" in " ".join(page.faults())


@screens
def test_the_plot_is_the_one_for_this_screen(page, file, dark, width):
    """Four renderings; the ground of the chosen one is that of the card around it."""
    page.open(file, dark=dark, width=width)
    sources = page.ask(
        "[...document.querySelectorAll('source')].map(s => s.srcset)"
        ".concat(document.querySelector('picture img').src)"
    )
    chosen = page.ask("document.querySelector('picture img').currentSrc")
    order = [(True, 390), (True, 1280), (False, 390), (False, 1280)]
    assert sources.index(chosen) == order.index((dark, width))
    assert len(set(sources)) == 4
    box = page.ask(
        "(r => [r.left, r.top, r.width])"
        "(document.querySelector('picture img').getBoundingClientRect())"
    )
    pixels = imread(io.BytesIO(page.picture()))[..., :3]
    left, top, wide = (round(x) for x in box)
    assert wide > 0.8 * width - 60
    assert abs(pixels[top + 4, left + 4] - pixels[top - 4, left + 4]).max() < 0.02


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_their_ground(page, file, dark):
    """WCAG AA: a contrast of 4.5 for text, 3 for the large decision."""
    page.open(file, dark=dark, width=1280)
    for tone in ("drift", "no-drift", "inconclusive", "leader", ""):
        page.ask(f"void (document.querySelector('.decision').className = 'decision {tone}')")
        assert _contrast(page, ".outcome", "section") >= 3
        assert _contrast(page, ".faint", "section") >= 4.5
        assert _contrast(page, ".reason", "section") >= 4.5
    if page.ask("document.querySelector('td.drift') !== null"):
        assert _contrast(page, "td.drift", "section") >= 4.5


def _contrast(page, words: str, ground: str) -> float:
    light = [
        _luminance(page.ask(f"getComputedStyle(document.querySelector('{query}')).{style}"))
        for query, style in ((words, "color"), (ground, "backgroundColor"))
    ]
    return (max(light) + 0.05) / (min(light) + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@screens
def test_columns_are_seen_and_open(page, tmp_path, dark, width):
    tables_page(tmp_path / "table.html")
    page.open(tmp_path / "table.html", dark=dark, width=width)
    seen = "[...document.querySelectorAll('summary')].map(s => s.getBoundingClientRect().height)"
    heights = page.ask(seen)
    assert len(heights) == 5
    assert max(heights) < 220
    drawn = page.ask("document.querySelector('summary svg').getBoundingClientRect().width")
    assert drawn > 80
    page.ask("void document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.ask("document.documentElement.scrollWidth") <= width
    for words in (".columns .mark", ".columns .name small", ".columns .number", ".facts small"):
        assert _contrast(page, words, "section") >= 4.5


def test_a_page_fails_where_its_report_lacks_an_attribute():
    """A variable may be left out, as a live page's are in a file."""
    of = _environment().from_string
    assert of("{{ nothing }}").render() == ""
    with pytest.raises(jinja2.UndefinedError):
        of("{{ one.nothing }}").render(one=1)
