"""How many examples a property test draws."""

import os

TIMES = int(os.environ.get("FLWR_KLD_EXAMPLES", "0"))
"""Times as many as usual, fresh ones; 0 for the usual number, the same in every run."""


def examples(usual: int) -> int:
    """Number of examples of a test in this run."""
    return usual * max(TIMES, 1)
