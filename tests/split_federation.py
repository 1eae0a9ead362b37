"""Twenty fruit lovers whose counts are split between two aggregators, on a watched grid."""

from collections.abc import Callable
from hashlib import sha256

from federation import REFERENCE, app_of
from flwr.clientapp import ClientApp
from sealed_federation import WatchedGrid

from flwr_kld.clients import AggregatorKey, AggregatorLimits, FirstUse, aggregate_drift_checks
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.strategies import KLDrift, TwoAggregators

KEYS = AggregatorKey.generate(), AggregatorKey.generate()
PAIR = KEYS[0].public, KEYS[1].public
NODES = 20
FIRST, SECOND = 1000 + NODES, 1001 + NODES
"""Nodes of the aggregators: of seeds, and of masked vectors."""


def identity(name: str) -> Identity:
    """A key that every process makes of a name: it protects nobody."""
    return Identity(sha256(name.encode()).digest())


class Members(FirstUse):
    """Clients with the identities of `ROSTER`."""

    def identity(self, context, member):
        return identity(self.name(context, member))


NAMES = [f"{1000 + i}:0" for i in range(NODES)]
ROSTER = Roster({name: identity(name).public for name in NAMES})


def people(records=None, **options) -> ClientApp:
    given = () if records is None else (records,)
    return app_of(*given, **{"secure_sum": Members(), "aggregators": PAIR} | options)


def aggregators(keys=KEYS, roster=ROSTER, limits: AggregatorLimits | None = None):
    apps = []
    for key in keys:
        app = ClientApp()
        aggregate_drift_checks(app, key=key, limits=limits, roster=roster)
        apps.append(app)
    return apps


def federation(
    clients: Callable | None = None, apps=None, nodes: int = NODES, **grid
) -> WatchedGrid:
    """Nodes from 1000 run `clients`; the next two are the aggregators."""
    clients, apps = clients or people(), apps or aggregators()

    def dispatch(message, context):
        place = context.node_id - 1000 - nodes
        return (clients if place < 0 else apps[place])(message, context)

    return WatchedGrid(dispatch, nodes + 2, **grid)


def monitor(epsilon: float = 3.0, trust: dict | None = None, **options) -> KLDrift:
    model = TwoAggregators(epsilon, aggregators=PAIR, **(trust or {}))
    return KLDrift(REFERENCE, model, **options)
