"""Columns by checks: what is hot, what is marked, and which columns are shown."""

import numpy as np
import pytest
from report.samples import REPORT
from report.tables import NAMES, drifted, table_report

from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries
from flwr_kld.views.check_plot import MOST, heat_of, rows_of

STILL = table_report(dict.fromkeys(NAMES, 0.0))
SERIES = CheckSeries([STILL, None, drifted(3), drifted(4, tenure=0.15)])


def test_heat_is_the_divergence_in_multiples_of_the_threshold():
    column = drifted(3).columns[NAMES[1]]
    assert heat_of(column) == pytest.approx(column.reading.of_population.value / 0.05)
    bare = table_report(dict.fromkeys(NAMES, 0.3), threshold=False).columns["wage"]
    assert heat_of(bare) == pytest.approx(bare.reading.of_population.value)


def test_rows_begin_with_what_drifted_most_often():
    assert rows_of(SERIES.points)[:2] == [NAMES[1], "tenure"]
    assert sorted(rows_of(SERIES.points)) == sorted(NAMES)
    assert rows_of([Point(1, REPORT), Point(2, None)]) == []


def test_a_map_of_many_columns_shows_those_that_moved_most():
    one = table_report({f"column {n:03d}": 0.3 if n == 70 else 0.0 for n in range(71)})
    rows = rows_of([Point(1, one)])
    assert len(rows) == MOST
    assert rows[0] == "column 070"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_the_map_has_fields_marks_and_a_scale(axes_of, dark, narrow):
    above, scale = axes_of(SERIES, dark=dark, narrow=narrow)
    (mesh,) = above.collections
    heat = mesh.get_array()
    assert heat.shape == (4, 4)
    assert heat.mask[:, 1].all()  # the check that failed
    assert not heat.mask[:, [0, 2, 3]].any()
    expected = heat_of(drifted(3).columns[NAMES[1]])
    assert heat[0, 2] == pytest.approx(expected)
    marks = {line.get_label(): line.get_xydata().tolist() for line in above.lines}
    assert marks[str(Outcome.DRIFT)] == [[3, 0], [4, 0], [4, 1]]
    assert marks["failed: no number"][0][0] == 2
    assert [tick.get_text() for tick in above.get_yticklabels()] == rows_of(SERIES.points)
    assert scale.get_ylabel() == "divergence ÷ threshold"
    assert above.get_xlabel().endswith("ε = 1 each")


def test_colours_go_one_way_in_lightness(axes_of):
    for dark in (False, True):
        above, *_ = axes_of(SERIES, dark=dark)
        ramp = above.collections[0].get_cmap()(np.linspace(0, 1, 50))[:, :3]
        lightness = ramp @ [0.2126, 0.7152, 0.0722]
        steps = np.diff(lightness) * (1 if dark else -1)
        assert (steps > 0).all()
