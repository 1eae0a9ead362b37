"""Masks carry all 256 bits of their key."""

import os

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from secure_sums.summing import Sum, session_of

from flwr_kld.kernel import channels as masks
from flwr_kld.kernel.channels import apply_masks
from flwr_kld.secure_sums.messages import Phase

KEY = bytes(range(32))


def mask_of(key: bytes, words: int = 64, dtype: str = "<u4") -> np.ndarray:
    vector = np.zeros(words, dtype)
    apply_masks(vector, [key], [])
    return vector


def flipped(key: bytes, *bits: int) -> bytes:
    number = int.from_bytes(key, "little")
    for bit in bits:
        number ^= 1 << bit
    return number.to_bytes(32, "little")


def uses_every_bit(mask) -> bool:
    """Whether each of the 256 bits matters, alone and together with the one 32, 64, … bits on."""
    plain = mask(KEY)
    alone = all((mask(flipped(KEY, bit)) != plain).mean() > 0.9 for bit in range(256))
    folds = (32, 64, 96, 128)
    together = all(
        (mask(flipped(KEY, bit, bit + fold)) != plain).mean() > 0.9
        for fold in folds
        for bit in range(256 - fold)
    )
    return alone and together


def test_every_bit_of_the_key_matters_where_folding_to_32_bits_fails():
    assert uses_every_bit(mask_of)
    assert not uses_every_bit(lambda key: pseudo_rand_gen(key, 1 << 32, [(64,)])[0])
    truncated = lambda key: mask_of(key[:4] + bytes(28))  # noqa: E731
    assert not uses_every_bit(truncated)


def test_the_keys_of_a_real_sum_have_full_entropy(monkeypatch):
    keys: list[bytes] = []

    def spy(vector, added, removed):
        keys.extend(added + removed)
        apply_masks(vector, added, removed)

    monkeypatch.setattr("flwr_kld.kernel.vector.apply_masks", spy)
    for trial in range(20):
        total = Sum(session_of(6, check=f"{trial}"), np.zeros((6, 4), np.uint64))
        total.until(Phase.REVEAL)
    distinct = set(keys)
    assert len(distinct) == 20 * (6 + 15)  # one a client, one a pair, none twice
    assert {len(key) for key in distinct} == {32}
    bits = np.unpackbits(np.frombuffer(b"".join(distinct), np.uint8).reshape(-1, 32), axis=1)
    # each bit is fair (|z| < 6.5: P < 256·1e-10) and no bit is the xor of others 32·j away
    assert (np.abs(2 * bits.mean(0) - 1) * len(bits) ** 0.5 < 6.5).all()
    rank = rank_of_bits(bits)
    assert rank == 256  # P[less] < 2^(256−420)
    folded = np.tile(bits[:, :32], 8)
    assert rank_of_bits(folded) <= 32  # the test has power


def rank_of_bits(rows: np.ndarray) -> int:
    """Rank over GF(2)."""
    basis: dict[int, int] = {}
    for row in rows:
        number = int("".join(map(str, row)), 2)
        while number:
            top = number.bit_length()
            if top not in basis:
                basis[top] = number
                break
            number ^= basis[top]
    return len(basis)


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
@pytest.mark.parametrize("words", [0, 1, 1000, 70_001])
def test_masks_cancel_at_every_length(words, dtype):
    start = np.arange(words, dtype=dtype)
    vector = start.copy()
    one, other = os.urandom(32), os.urandom(32)
    apply_masks(vector, [one], [other])
    apply_masks(vector, [other], [one])
    assert np.array_equal(vector, start)


def test_long_masks_continue_the_stream():
    step = masks._CHUNK // 4
    assert np.array_equal(mask_of(KEY, 2 * step + 5)[:100], mask_of(KEY, 100))
    long = mask_of(KEY, 2 * step)
    assert not np.array_equal(long[:step], long[step:])


def test_chacha20_known_answer():
    # RFC 8439 A.1, test vector 1: key, nonce and counter all zero
    assert mask_of(bytes(32), 4).tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        mask_of(b"short")
