"""The study of queries that adapt: designs meet the same truth."""

from flwr_kld.simulations.studies import predictor_adaptive as study


def test_designs_and_epsilons_meet_the_same_instance():
    tasks = [t for t in study.tasks_of(1, 200, 20) if (t["family"], t["K"]) == ("drift", 100)]
    assert {(t["epsilon"], t["design"]) for t in tasks if t["part"] == study.INSIDE} == {
        (e, d) for e in study.EPSILONS for d in ("adaptive", "design")
    }
    (table, true), *others = [study.instance_of(task) for task in tasks]
    assert all((table == other).all() and true == other_true for other, other_true in others)
