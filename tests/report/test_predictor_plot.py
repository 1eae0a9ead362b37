"""The plot of a predictor says what its rounds say."""

import numpy as np
import pytest
from report.samples import altered, learnt, mornings

from flwr_kld.report.envelope import Point
from flwr_kld.views import RoundSeries, round_series


@pytest.fixture
def drawn(axes_of):
    """Draw rounds; returns the figure's first and last axes, which may be the same."""

    def draw(rounds, **options):
        axes = axes_of(RoundSeries(rounds), **options)
        return axes[0], axes[-1]

    return draw


def layers(axes) -> dict[str, np.ndarray]:
    """Corners of each candidate's area, [n, 2], by its name in the legend."""
    areas = {area.get_label(): area for area in axes.collections}
    return {
        name: np.vstack([path.vertices for path in area.get_paths()])
        for name, area in areas.items()
    }


def marks(axes) -> dict[str, list[float]]:
    return {line.get_label(): list(line.get_xdata()) for line in axes.lines}


def test_weights_are_stacked_and_a_failed_round_is_a_gap(drawn):
    above, below = drawn(mornings(6, change_at=5))
    found = layers(above)
    assert list(found) == ["usual", "<strike>", "summer"]
    usual = found["usual"]
    for number in (1, 2, 4):
        heights = usual[abs(usual[:, 0] - number) <= 0.5, 1]
        assert set(heights.round(6)) >= {0.0, 0.9}
    at_change = usual[np.isclose(usual[:, 0], 4.5), 1].round(6)
    assert {0.9, 0.05} <= set(at_change)  # a step, not a slope
    assert not ((usual[:, 0] > 2.5) & (usual[:, 0] < 3.5)).any()
    top = found["summer"][:, 1]
    assert top.max() == pytest.approx(1.0)
    assert above.get_ylabel() == "weight of each candidate"
    assert below.get_ylabel() == "ε  [nats]"


def test_changes_of_the_leader_and_failures_are_marked(drawn):
    above, below = drawn(mornings(6, change_at=5))
    assert marks(above) == {"another leader": [5], "failed: nothing learnt": [3]}
    spent = next(line for line in below.lines if "spent" in str(line.get_label()))
    assert list(spent.get_ydata())[1:-1] == [n % 8 / 2 for n in (1, 2, 4, 5, 6)]
    assert any(text.get_text() == "1 left of 4" for text in below.texts)


def test_a_change_across_a_failed_round_is_marked_where_it_shows(drawn):
    above, _ = drawn(mornings(6, change_at=3))
    assert marks(above)["another leader"] == [4]


def test_the_least_of_many_candidates_are_one_layer(drawn):
    many = {f"c{j}": (j + 1) / 55 for j in range(10)}
    report = altered(learnt(1), weights=many, leader="c9")
    above, _ = drawn([Point(1, report)])
    found = layers(above)
    assert list(found) == [*(f"c{j}" for j in range(3, 10)), "3 others"]
    others = found["3 others"][:, 1]
    assert others.max() - others.min() == pytest.approx((1 + 2 + 3) / 55)
    colours = {tuple(area.get_facecolor()[0]) for area in above.collections}
    assert len(colours) == len(found) == len(round_series._COLOURS) + 1


@pytest.mark.parametrize(("narrow", "kept"), [(True, 18), (False, 32)])
@pytest.mark.filterwarnings("error:constrained_layout not applied")
def test_long_names_are_cut_in_the_legend(drawn, narrow, kept):
    name = "a candidate with a name of many words " + "x" * 80
    above, _ = drawn([Point(1, learnt(1, name))], narrow=narrow)
    assert list(layers(above))[-1] == name[: kept - 1] + "…"


def test_nothing_learnt_yet(drawn):
    above, _ = drawn([Point(1, None)])
    assert layers(above) == {}
    assert marks(above) == {"failed: nothing learnt": [1]}
    above, _ = drawn([Point(1, None, ended=False)])
    assert marks(above) == {"not ended": [1]}


@pytest.mark.parametrize("name", ["r.png", "r.svg"])
def test_files_are_pictures(tmp_path, name):
    rounds = RoundSeries(mornings(4, change_at=2))
    rounds.plot(tmp_path / name, title="Traffic", narrow=True, dark=True)
    assert (tmp_path / name).read_bytes()[:4] in (b"\x89PNG", b"<?xm")
