"""Locked reveals: a client's reveal opens once enough neighbours confirm its list of survivors.

A client seals its reveal under a fresh key and shares that key among its surviving neighbours. It
hides each share under the confirmation that only it and that neighbour can compute, and that the
neighbour shows when it is told the same list. So a client answers a list at once, and nobody reads
the answer before as many neighbours confirm the list as would have had to if it had waited.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import Tampered
from flwr_kld.secure_sums import keys
from flwr_kld.secure_sums.shamir import RandomBytes, combine, split

_SECRET = 16


def lock(
    plain: bytes,
    survivors: bytes,
    owner: int,
    beside: NDArray[np.bool_],
    confirmations: NDArray[np.uint8],
    needed: int,
    random: RandomBytes,
) -> tuple[bytes, NDArray[np.uint8]]:
    """Seal a reveal, and lock it with the confirmations of its owner's surviving neighbours."""
    secret = random(_SECRET)
    shares = split(secret, len(beside), needed, random, size=_SECRET)[beside, 0]
    box = keys.seal(keys.reveal_key(secret, survivors, owner), plain, survivors, owner, owner)
    return box, shares ^ confirmations


def unlock(
    boxes: list[bytes],
    survivors: bytes,
    owners: list[int],
    shares: NDArray[np.uint8],
    held: NDArray[np.bool_],
    needed: int,
) -> Iterator[tuple[int, bytes]]:
    """Open the reveals of many clients, each with the confirmations that came."""
    secrets = combine(shares, held, needed)
    for row, (owner, box, secret) in enumerate(zip(owners, boxes, secrets, strict=True)):
        plain = _opened(secret, box, survivors, owner)
        if plain is None and held[row].sum() > needed:
            used = np.flatnonzero(held[row])[:needed]
            without = np.tile(held[row], (needed, 1))
            without[np.arange(needed), used] = False
            others = combine(np.repeat(shares[[row]], needed, axis=0), without, needed)
            tries = (_opened(other, box, survivors, owner) for other in others)
            plain = next((one for one in tries if one is not None), None)
        if plain is not None:
            yield owner, plain


def _opened(secret: bytes | None, box: bytes, survivors: bytes, owner: int) -> bytes | None:
    if secret is None:
        return None
    try:
        key = keys.reveal_key(secret, survivors, owner)
        return keys.unseal(key, box, survivors, owner, owner)
    except Tampered:
        return None
