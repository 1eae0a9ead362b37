"""Checks under each trust model, timed by a bench."""
