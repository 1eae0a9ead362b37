"""Drift checks of FEMNIST, one writer on each node."""
