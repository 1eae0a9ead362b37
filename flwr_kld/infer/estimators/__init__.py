"""Estimators of the divergence, from what a check published."""
