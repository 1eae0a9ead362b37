"""The papers' estimators are tried on the same counts as the product's."""

from inference.estimators.conftest import exact, plan_for, release, zipf

__all__ = ["exact", "plan_for", "release", "zipf"]
