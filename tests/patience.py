"""How long to wait for another process before calling it hung: no limit on a busy machine."""

HANGS = 900.0
"""In seconds."""
