"""Hypotheses: constant, or by context; always over one domain and never impossible."""

import numpy as np
import pandas as pd
import pytest

from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Laws
from flwr_kld.reference import Reference
from flwr_kld.table.labels import Labels

DOMAIN = Labels(["a", "b", "c"])
EVEN = Reference.from_probabilities(DOMAIN, [0.4, 0.3, 0.3])
ODD = Reference.from_probabilities(DOMAIN, [0.0, 0.0, 1.0])
OTHER = Reference.from_probabilities(Labels(["x", "y", "z"]), [0.4, 0.3, 0.3])


def test_every_kind_of_hypothesis_gives_its_law_in_a_context():
    hypotheses = Hypotheses(
        {"constant": EVEN, "table": {"x": ODD, "y": EVEN}},
        floor=0.0,
    )
    assert hypotheses.names == ("constant", "table")
    for context, rows in {"x": [EVEN, ODD], "y": [EVEN, EVEN]}.items():
        table = hypotheses.at(context).probabilities
        np.testing.assert_array_equal(table, [r.probabilities for r in rows])


FRAME = {
    "ward": list("aabbbccabc"),
    "year": ["2024"] * 5 + ["2025"] * 5,
    "day": ["week", "week", "end", "end", "end", "week", "week", "end", "end", "week"],
}


@pytest.mark.parametrize("frame", [FRAME, pd.DataFrame(FRAME)], ids=["mapping", "pandas"])
def test_one_frame_holds_candidates_of_every_context(frame):
    hypotheses = Hypotheses.from_frame(
        DOMAIN, frame, label="ward", candidate="year", context="day", floor=0.0
    )
    assert hypotheses.names == ("2024", "2025")
    np.testing.assert_allclose(
        hypotheses.at("week").probabilities, [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0]]
    )
    np.testing.assert_allclose(
        hypotheses.at("end").probabilities, [[0, 1, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]
    )
    constant = Hypotheses.from_frame(DOMAIN, frame, label="ward", candidate="year", floor=0.0)
    np.testing.assert_allclose(constant.at("any").probabilities[0], [0.4, 0.6, 0, 0, 0])


def test_the_floor_leaves_no_label_impossible():
    laws = Hypotheses({"even": EVEN, "odd": ODD}, floor=0.03).at()
    np.testing.assert_allclose(laws.probabilities[1], [0.006, 0.006, 0.976, 0.006, 0.006])
    assert (Hypotheses({"even": EVEN, "odd": ODD}).at().probabilities > 0).all()


def test_constant_hypotheses_are_one_table_in_all_contexts():
    hypotheses = Hypotheses({"even": EVEN, "odd": ODD})
    assert hypotheses.at("today") is hypotheses.at("tomorrow") is hypotheses.at()


@pytest.mark.parametrize(
    ("candidates", "floor", "message"),
    [
        ({"even": EVEN}, 0.0, "least"),
        (None, 0.0, "mapping"),
        ([EVEN, ODD], 0.0, "mapping"),
        ("even", 0.0, "mapping"),
        ({1: EVEN, 2: ODD}, 0.0, "name"),
        ({"": EVEN, "odd": ODD}, 0.0, "name"),
        ({"even": EVEN, "odd": ODD}, 1.0, "floor"),
        ({"even": EVEN, "odd": ODD}, -0.1, "floor"),
        ({"even": EVEN, "other": OTHER}, 0.0, "domain"),
        ({"even": EVEN, "other": {"x": OTHER}}, 0.0, "domain"),
        ({"even": EVEN, "other": {"x": [0.5, 0.5]}}, 0.0, "Reference"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(candidates, floor, message):
    with pytest.raises(ValueError, match=message):
        Hypotheses(candidates, floor=floor)


def test_a_missing_context_is_refused_when_asked():
    with pytest.raises(ValueError, match="odd"):
        Hypotheses({"even": EVEN, "odd": {"x": ODD}}).at("y")


@pytest.mark.parametrize(
    "table",
    [
        [[0.5, 0.5]],
        [[1.0], [1.0]],
        [[0.5, 0.6], [0.5, 0.5]],
        [[1.5, -0.5], [0.5, 0.5]],
        [[np.nan, 0.5], [0.5, 0.5]],
        [0.5, 0.5],
    ],
)
def test_malformed_laws_are_refused(table):
    with pytest.raises(ValueError, match="law"):
        Laws(table)


def test_laws_are_equal_when_their_numbers_are_and_cannot_be_changed():
    table = np.array([[0.5, 0.5], [0.25, 0.75]])
    laws = Laws(table)
    table[0] = [1, 0]
    assert laws == Laws([[0.5, 0.5], [0.25, 0.75]])
    assert laws != Laws(table)
    with pytest.raises(ValueError, match="read-only"):
        laws.probabilities[0] = 0.1
