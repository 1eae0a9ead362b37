"""Thin Flower apps, the in-process grid, studies and benchmarks."""
