"""The study of TV-risk: what it compares with, the worst class, and that it goes on."""

import numpy as np
import pytest

from flwr_kld.simulations.studies import predictor_tv_risk as study
from flwr_kld.simulations.studies.resumable import Kept

TASKS = study.tasks_of(2, (50,))[:8]


def test_both_learners_meet_the_same_truth(monkeypatch):
    seen = []

    def learner_of(method, table, true, horizon, rng, epsilon):
        seen.append((table.tobytes(), true))
        raise StopIteration

    monkeypatch.setattr(study, "learner_of", learner_of)
    for learner in study.LEARNERS:
        with pytest.raises(StopIteration):
            study.measure(None, {**TASKS[0], "learner": learner})
    assert seen[0] == seen[1]


def test_the_worst_class_stands_for_its_setting(tmp_path):
    kept = Kept(tmp_path)
    for task in TASKS:
        kept.save(task, {"mean_tv": np.array(task["distance"] / 2)})
    rows = study.rows_of([(task, kept.load(task)) for task in TASKS])
    assert {row["alpha"] for row in rows} == {max(task["distance"] for task in TASKS)}
    assert all(row["tv_risk"] == pytest.approx(row["alpha"] / 2) for row in rows)


def test_exponents_are_those_of_powers():
    rows = [
        {"learner": learner, "K": 7, "T": t, "epsilon": 1.0, "edge": t == 10,
         "tv_risk": 0.3 * study.conjectured(7, t, 1.0) ** power}
        for learner, power in zip(study.LEARNERS, (1.0, 0.5), strict=True)
        for t in (10, 100, 1_000, 10_000)
    ]  # fmt: skip
    assert study.exponents(rows) == {"default": 1.0, "algorithm 2": 0.5}
