"""Sums in shards: what the server, who sees each shard's sum, can be promised."""

import math

import pytest

from flwr_kld.ledger.delivered import epsilon_of
from flwr_kld.trust.distributed import Distributed

WHOLE, SHARDS = 400, 8
EACH = WHOLE // SHARDS


def test_noise_calibrated_to_the_whole_does_not_protect_a_shard():
    """An eighth of it is what a shard's sum has."""
    whole = Distributed(1.0, min_clients=WHOLE)
    delivered = epsilon_of(whole.share(), EACH)
    assert delivered > 2 * whole.epsilon


def test_whole_noise_in_each_shard_does_and_its_deviation_is_the_root_of_their_number():
    each, whole = Distributed(1.0, min_clients=EACH), Distributed(1.0, min_clients=WHOLE)
    assert epsilon_of(each.share(), EACH) <= 1.0
    deviation = math.sqrt(SHARDS * each.event(EACH).table.variance)
    usual = math.sqrt(whole.event(WHOLE).table.variance)
    assert deviation / usual == pytest.approx(math.sqrt(SHARDS), rel=1e-3)
