"""How many examples a property test draws."""

import os

TIMES = float(os.environ.get("FLWR_KLD_EXAMPLES", "0.4"))
"""Times as many as a test asks for; below 1, as in `make test`, the same ones in every run."""


def examples(wanted: int) -> int:
    """Number of examples of a test in this run."""
    return max(round(wanted * TIMES), 1)
