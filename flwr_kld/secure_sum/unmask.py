"""Taking the masks off a sum: survivors' self masks, and dropouts' pairwise masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_sum import keys
from flwr_kld.secure_sum.errors import Tampered, TooFewSurvivors
from flwr_kld.secure_sum.masks import apply_masks
from flwr_kld.secure_sum.session import Session
from flwr_kld.secure_sum.shamir import combine


@dataclass(frozen=True, eq=False)
class Opening:
    """What the clients revealed.

    Parameters
    ----------
    session : Session
        Whose sum it is.
    table : NDArray[np.int64]
        Shape [n, k]: neighbours by slot.
    alive : NDArray[np.bool_]
        Shape [n]: whose vectors are in the sum.
    shared : NDArray[np.bool_]
        Shape [n]: who dealt shares; pairwise masks exist between these.
    adverts : NDArray[np.uint8]
        Shape [n, 128]: one-use public keys and signature.
    commitments : NDArray[np.uint8]
        Shape [n, 32]: commitments to the seeds.
    shares : NDArray[np.uint8]
        Shape [n, k + 1, 34]: shares of a survivor's seed or a dropout's mask key, by holder
        (the owner first).
    held : NDArray[np.bool_]
        Shape [n, k + 1]: which of them came.
    """

    session: Session
    table: NDArray[np.int64]
    alive: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    adverts: NDArray[np.uint8]
    commitments: NDArray[np.uint8]
    shares: NDArray[np.uint8]
    held: NDArray[np.bool_]

    def secrets(self, owners: NDArray[np.int64]) -> list[bytes]:
        """Open the owners' secrets.

        Raises
        ------
        TooFewSurvivors
            If one has fewer shares than the threshold.
        """
        threshold = self.session.shape.threshold
        if (self.held[owners].sum(1) < threshold).any():
            raise TooFewSurvivors(f"a secret has fewer shares than the threshold {threshold}")
        return combine(self.shares[owners], self.held[owners], threshold)


def open_sum(opening: Opening, total: NDArray[Any]) -> None:
    """Take all masks off `total`, in place.

    Raises
    ------
    TooFewSurvivors
        If a secret lacks shares.
    Tampered
        If a secret is not the one its owner committed to.
    """
    session, alive = opening.session, opening.alive
    survivors = np.flatnonzero(alive)
    beside = alive[opening.table]  # [n, k]
    missing = np.flatnonzero(opening.shared & ~alive & beside.any(1))
    seeds, mask_secrets = opening.secrets(survivors), opening.secrets(missing)

    added: list[bytes] = []
    removed: list[bytes] = []
    for index, seed in zip(survivors.tolist(), seeds, strict=True):
        if keys.commitment(seed, session.digest, index) != opening.commitments[index].tobytes():
            raise Tampered(f"the shares of client {index} of the cohort open to another seed")
        removed.append(keys.self_mask_key(seed, session.digest, index))
    for index, secret in zip(missing.tolist(), mask_secrets, strict=True):
        own = keys.OneUseKey(secret)
        if own.public != opening.adverts[index, :32].tobytes():
            raise Tampered(f"the shares of client {index} of the cohort open to another key")
        for peer in opening.table[index, beside[index]].tolist():
            public = opening.adverts[peer, :32].tobytes()
            key = keys.mask_key(own, public, session.digest, index, peer)
            (removed if peer < index else added).append(key)
    apply_masks(total, added, removed)
