"""The theorems' bounds are of the stated order, and each statement is computed."""

import json

import numpy as np
import pytest

from flwr_kld.simulations.studies import theorems
from flwr_kld.simulations.studies.papers.learners import kl_risk


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_risk_of_both_algorithms_is_of_the_order_of_a_root(delta):
    """But for three logarithms: four times the reports double the bound, and a half more."""
    one, four = (kl_risk(10, 1.0, horizon, delta=delta) for horizon in (10_000, 40_000))
    assert 2 < four / one < 2.6


def test_every_statement_is_computed_and_those_that_are_false_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(theorems.CLAIMS, "online", ())  # seconds: see the next test
    monkeypatch.setitem(theorems.CLAIMS, "integral", ())
    theorems.main(["--quick", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "theorems.json").read_text())["rows"]
    wrong = [row["statement"].partition(":")[0] for row in rows if row["holds"] == "NO"]
    assert wrong == ["Algorithm 2 as printed, (A + B) / T", "4.5", "3.1, 4.6", "4.6", "4.11"]
    numbers = {row["statement"]: row["number"] for row in rows}
    assert numbers["3.1, 4.6: noise of ε = 0.05, Δ = ln 2"] == pytest.approx(0.13, abs=0.001)
    assert numbers["4.6: A and B at √2 ε each, ε = 1"] == pytest.approx(2.06, abs=0.01)
    assert numbers["4.9: Δ(D) on laws with every value twice"] <= np.log(1.5) + 1e-3


@pytest.mark.slow
def test_so_are_those_of_the_other_papers():
    online = [found for claim in theorems.CLAIMS["online"] for found in claim(True)]
    assert [found[0] for found in online if found[-1] is False] == [
        "Theorem 3, eq. (23c) at ε = 4, four labels"
    ]
    integral = [found for claim in theorems.CLAIMS["integral"] for found in claim(True)]
    assert [found[0].partition(":")[0] for found in integral if not found[-1]] == [
        "Theorem 7, eq. (10)", "Theorem 6, low regime, as printed, c* = .1",
    ]  # fmt: skip
