"""What the page says of a table's columns."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report.samples import REPORT
from report.tables import NAMES, drifted, table_report

from flwr_kld.report import Outcome
from flwr_kld.views import CheckSeries
from flwr_kld.views.check_series import HIGH, bars

pytestmark = pytest.mark.usefixtures("no_plots")
TABLE = drifted()


def words(*reports) -> str:
    return " ".join(CheckSeries(reports).to_html(title="t").split())


class Tags(HTMLParser):
    """Counts what is opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("details", "summary", "section", "svg", "dl", "div"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("details", "summary", "section", "svg", "dl", "div"):
            assert self.open.pop() == tag


def test_columns_stand_in_rank_and_the_first_one_that_drifted_is_open():
    text = words(TABLE)
    shown = re.findall(
        r'<details class="([\w-]+)"( open)?>.*?</span> (.*?) <small>(.*?)</small>', text
    )
    assert shown[0] == ("drift", " open", "age &lt;years&gt;", "drift")
    assert [(tone, is_open) for tone, is_open, *_ in shown[1:]] == [("no-drift", "")] * 3
    assert "<years>" not in text
    assert "<c>" not in text
    tags = Tags()
    tags.feed(text)
    assert not tags.open


def test_a_table_without_a_threshold_or_without_counts():
    bare = table_report(dict.fromkeys(NAMES, 0.0), threshold=False)
    text = words(bare)
    assert text.count("– </span>") + text.count(">–</span>") >= 4
    assert text.count("<small>not judged</small>") == 4
    one = replace(bare.columns["wage"], histogram=None, figures=None)
    assert "<details" in words(replace(bare, columns=bare.columns | {"wage": one}))


def test_a_single_column_is_shown_as_those_of_a_table():
    text = words(REPORT)
    assert text.count("<details") == 1
    assert "first column" not in text[text.index("<h2>Checks</h2>") :]


def test_pictures_show_both_laws_on_one_scale():
    shown = TABLE.columns[NAMES[1]].histogram
    drawn = list(bars(shown))
    assert len(drawn) == len(shown.names)
    scale = [
        (HIGH - height) / share
        for bar, (_, *shares, _, _) in zip(drawn, shown.bars, strict=True)
        for height, share in zip((bar.reference, bar.clients), shares, strict=True)
    ]
    assert max(scale) == pytest.approx(min(scale), rel=0.02)
    for bar in drawn:
        assert 0 <= bar.high <= bar.clients <= bar.low <= HIGH
        assert 0 <= bar.x < bar.at < bar.x + bar.width <= 100


def test_block_patterns_are_pictures_and_the_text_around_them_is_escaped():
    column = TABLE.columns["wage"]
    name = "<i>#.../..../..../...#</i>"
    histogram = replace(column.histogram, names=(name, *column.histogram.names[1:]))
    columns = TABLE.columns | {"wage": replace(column, histogram=histogram)}
    text = words(replace(TABLE, columns=columns))
    picture = (
        '&lt;i&gt;<svg class="pattern" viewBox="0 0 4 4" role="img" '
        'aria-label="#.../..../..../...#"><path d="M0 0h1v1h-1zM3 3h1v1h-1z"/></svg>&lt;/i&gt;'
    )
    assert picture in text
    assert "<i>" not in text
    tags = Tags()
    tags.feed(text)
    assert not tags.open


@pytest.mark.parametrize(("high", "said"), [(0.03, True), (0.9, False)])
def test_page_and_text_say_what_no_alarm_does_not_exclude(high, said):
    """Few records can have changed, and D may be much all the same: rare values may be gone."""
    one = TABLE.columns["wage"]
    near = replace(one.figures.total_variation, value=0.0, low=0.0, high=high)
    verdict = replace(one.verdict, outcome=Outcome.NO_ALARM, outside=None)
    figures = replace(one.figures, total_variation=near)
    quiet = replace(one, verdict=verdict, figures=figures, moved=())
    report = replace(TABLE, columns={"wage": quiet})
    for text in (" ".join(str(report).split()), words(report)):
        assert ("rare values may be gone" in text) is said
