"""Monitors of guarded nodes, for tests."""

from federation import REFERENCE, app_of

from flwr_kld.clients import FirstUse
from flwr_kld.strategies import Distributed, KLDrift, SecureSum, Trusted

TEN = Distributed(epsilon=1.0, min_clients=10)


def plain(trust=None, **options):
    return KLDrift(REFERENCE, trust or Trusted(epsilon=1.0), **options)


def summed(trust=TEN, **options):
    return KLDrift(REFERENCE, trust, aggregation=SecureSum(), **options)


def summing(**options):
    return app_of(secure_sum=FirstUse(), **options)
