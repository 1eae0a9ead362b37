"""What clients are asked: disjoint cells of the domain, drawn from the public reference."""

from flwr_kld.query.monte_carlo import MonteCarlo
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import HEAD, Plan, QueryPlan, cells_from_wire
from flwr_kld.query.selection import EVERYTHING, MOST_GROUPS, Selection, record_ids, salted

__all__ = [
    "EVERYTHING",
    "HEAD",
    "MOST_GROUPS",
    "MonteCarlo",
    "Partition",
    "Plan",
    "QueryPlan",
    "Selection",
    "cells_from_wire",
    "record_ids",
    "salted",
]
