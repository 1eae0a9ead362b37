"""What texts, tables and pages say in the same words."""

from __future__ import annotations

from collections.abc import Mapping


def left_out(reasons: Mapping[str, int]) -> str:
    """Write ``2 × no reply; 1 × refused: …``, the most frequent reason first; empty for none."""
    most_first = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return "; ".join(f"{clients} × {reason}" for reason, clients in most_first if clients)


def aside(reasons: Mapping[str, int]) -> str:
    """Write the same in brackets, behind a space."""
    words = left_out(reasons)
    return f" ({words})" if words else ""


def left_of(left: float | None, budget: float | None) -> str:
    """Write what is left of a budget, in nats: ``2.5 of 4``."""
    if left is None:
        return "–"
    return f"{left:.3g}" if budget is None else f"{left:.3g} of {budget:g}"
