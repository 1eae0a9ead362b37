"""Worlds of the study of false alarms."""

from flwr_kld.simulations.studies.false_alarms import worlds


def test_each_world_is_counted_by_a_name_of_its_own():
    names = [world.name for world in worlds()]
    assert len(set(names)) == len(names)
