"""Commuters, most of whom cycle: a federation to simulate."""
