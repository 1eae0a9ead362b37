"""Thin Flower apps, the in-process grid, and virtual handwriters."""
