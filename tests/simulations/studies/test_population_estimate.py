"""The study of both estimates holds each against its own truth."""

import numpy as np
import pytest

from flwr_kld.simulations.studies import population_estimate as study


@pytest.fixture(autouse=True)
def few_writers(monkeypatch):
    monkeypatch.setattr(study, "_VIRTUAL_WRITERS", 60)
    study.writers.cache_clear()
    yield
    study.writers.cache_clear()


def test_digits_of_a_reference_have_its_rows_and_another_one_is_written():
    for rows, several in ((1_250, 1), (3_500, 1), (10_000, 3), (30_000, 9)):
        before, after = study.digits_of(rows, np.random.default_rng(0))
        assert (len(before), len(after)) == (several, 1)
        assert not set(before) & set(after)


def test_the_law_of_what_is_drawn_from_the_reference_has_no_divergence():
    rows = [study.study(("digits", 3.0, mix, 0)) for mix in (0.0, 1.0)]
    assert rows[0]["population truth"] > 0.5
    assert rows[1]["population truth"] == pytest.approx(0, abs=1e-9)
    assert rows[1]["cohort truth"] > 0.01  # by chance
    for row in rows:
        assert abs(row["population off"]) < 4 * row["population stated"]


def test_a_summary_counts_what_is_beyond_two_deviations():
    def row(epsilon, off):
        names = {"truth": 1.0, "off": off, "stated": 0.1}
        both = {
            f"{name} {key}": of for name in ("population", "cohort") for key, of in names.items()
        }
        return {"epsilon": epsilon, **both}

    found = study.summary([row(1.0, -0.3), row(1.0, 0.1), row(3.0, 0.0)], "epsilon")
    assert [(r["epsilon"], r["estimate"]) for r in found[:2]] == [
        (1.0, "population"),
        (1.0, "cohort"),
    ]
    assert (found[0]["bias"], found[0]["beyond_2"]) == (pytest.approx(-0.1), 0.5)
    assert found[2]["rmse"] == 0
