"""What a Rényi filter charges, computed otherwise than the ledger does."""

import math

from flwr_kld.ledger import Cost

_ORDERS = [1 + 1.15**n for n in range(-8, 56)]


def renyi_of_gaussian(order: float, noise: float) -> float:
    return order / (2 * noise**2)


def renyi_of_table(order: float, cost: Cost) -> float:
    """Of noise from a table, on each coordinate that moves: by the weights themselves."""
    total, weights = 0.0, cost.table.weights
    for shift in map(abs, cost.shifts):
        pairs = [(p, q) for p, q in zip(weights[shift:], weights, strict=False) if min(p, q) >> 40]
        both = math.fsum(p / 2**128 * math.exp((order - 1) * math.log(p / q)) for p, q in pairs)
        total += math.log(both) / (order - 1)
    return total


def order_of(epsilon: float, delta: float) -> tuple[float, float]:
    """The order that leaves most room for Gaussian noise, and what delta takes at it."""
    taken = [
        (math.log(1 / delta) + (a - 1) * math.log(1 - 1 / a) - math.log(a)) / (a - 1)
        for a in _ORDERS
    ]
    best = max(range(len(_ORDERS)), key=lambda i: (epsilon - taken[i]) / _ORDERS[i])
    return _ORDERS[best], taken[best]
