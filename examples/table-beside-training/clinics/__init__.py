"""Drift checks of a table, beside training with scikit-learn."""
