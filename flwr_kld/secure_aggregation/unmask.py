"""Taking the masks off a sum: survivors' self masks, and dropouts' pairwise masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.collected import Collected
from flwr_kld.secure_aggregation.errors import Tampered, TooFewSurvivors
from flwr_kld.secure_aggregation.masks import apply_masks
from flwr_kld.secure_aggregation.shamir import combine


def open_sum(collected: Collected) -> None:
    """Take all masks off the total, in place.

    Raises
    ------
    TooFewSurvivors
        If a secret lacks shares.
    Tampered
        If a secret is not the one its owner committed to.
    """
    session, alive = collected.session, collected.alive
    survivors = np.flatnonzero(alive)
    beside = alive[collected.table]  # [n, k]
    missing = np.flatnonzero(collected.shared & ~alive & beside.any(1))
    seeds, mask_secrets = _secrets(collected, survivors), _secrets(collected, missing)

    added: list[bytes] = []
    removed: list[bytes] = []
    for index, seed in zip(survivors.tolist(), seeds, strict=True):
        if keys.commitment(seed, session.digest, index) != collected.commitments[index].tobytes():
            raise Tampered(f"the shares of client {index} of the cohort open to another seed")
        removed.append(keys.self_mask_key(seed, session.digest, index))
    for index, secret in zip(missing.tolist(), mask_secrets, strict=True):
        own = keys.OneUseKey(secret)
        if own.public != collected.adverts[index, :32].tobytes():
            raise Tampered(f"the shares of client {index} of the cohort open to another key")
        for peer in collected.table[index, beside[index]].tolist():
            public = collected.adverts[peer, :32].tobytes()
            key = keys.mask_key(own, public, session.digest, index, peer)
            (removed if peer < index else added).append(key)
    apply_masks(collected.total, added, removed)


def _secrets(collected: Collected, owners: NDArray[np.int64]) -> list[bytes]:
    """Open the owners' secrets."""
    threshold = collected.session.shape.threshold
    if (collected.held[owners].sum(1) < threshold).any():
        raise TooFewSurvivors(f"a secret has fewer shares than the threshold {threshold}")
    return combine(collected.shares[owners], collected.held[owners], threshold)
