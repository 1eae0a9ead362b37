"""Shamir's sharing: any t shares open, fewer say nothing."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.secure_sums.shamir import PRIME, SHARE, _inverse, combine, split, uniform


@settings(max_examples=examples(60))
@given(data=st.data(), holders=st.integers(1, 40))
def test_any_t_shares_open_every_secret(data, holders):
    threshold = data.draw(st.integers(1, holders))
    secrets = [data.draw(st.binary(min_size=32, max_size=32)) for _ in range(3)]
    shares = split(b"".join(secrets), holders, threshold)
    assert shares.shape == (holders, 3, SHARE)
    held = np.zeros((3, holders), bool)
    for row in held:
        chosen = data.draw(st.permutations(range(holders)))[:threshold]
        row[chosen] = True
    assert combine(shares.transpose(1, 0, 2), held, threshold) == secrets


def test_extreme_secrets_and_many_holders():
    secrets = b"\x00" * 32 + b"\xff" * 32
    shares = split(secrets, 1000, 501).transpose(1, 0, 2)
    held = np.zeros((2, 1000), bool)
    held[:, 499:] = True
    assert combine(shares, held, 501) == [b"\x00" * 32, b"\xff" * 32]


def test_the_matrix_product_is_exact_at_its_largest():
    secret = os.urandom(32)
    top = lambda count: (np.full(count // 4, PRIME - 1, "<u4")).tobytes()  # noqa: E731
    shares = split(secret, 60, 60, top)
    x = 60
    value = int(np.frombuffer(secret, "<u2")[0])
    value = (value + sum((PRIME - 1) * pow(x, e, PRIME) for e in range(1, 60))) % PRIME
    share = shares[x - 1, 0]
    low = int(share[:2].view("<u2")[0])
    assert low + (int(share[32] & 1) << 16) == value


def test_one_share_too_few_is_consistent_with_every_secret():
    # For each candidate secret there is exactly one polynomial through the t − 1 shares, so the
    # shares' law does not depend on the secret; here: the missing share takes every value.
    shares = split(bytes(32), 3, 3)
    opened = set()
    for guess in range(0, PRIME, 4096):
        forged = shares[2].copy()
        forged[0, :2] = np.array([guess & 0xFFFF], "<u2").view(np.uint8)
        forged[0, 32] = (forged[0, 32] & 0xFE) | (guess >> 16)
        rows = np.stack([shares[0], shares[1], forged]).transpose(1, 0, 2)
        (secret,) = combine(rows, np.ones((1, 3), bool), 3)
        opened.add(secret and secret[:2])
    assert len(opened) == len(range(0, PRIME, 4096))


def test_single_shares_of_different_secrets_have_the_same_law():
    from scipy import stats

    draws = []
    for secret in (bytes(32), b"\xff" * 32):
        shares = split(secret * 4000, 2, 2)[0]
        draws.append(shares[:, :32].copy().view("<u2").reshape(-1) >> 8)
    table = [np.bincount(d, minlength=256) for d in draws]
    assert stats.chi2_contingency(table).pvalue > 1e-6
    clear = split(bytes(32) * 4000, 2, 1)[0][:, :32].copy().view("<u2").reshape(-1) >> 8
    plain = [table[1], np.bincount(clear, minlength=256)]
    assert stats.chi2_contingency(np.array(plain) + 1).pvalue < 1e-6  # the test has power


def test_field_elements_are_exactly_uniform():
    words = [b"\xff\xff\xff\xff", b"\x01\x00\x00\x00"]
    assert uniform(1, lambda count: words.pop(0))[0] == 1  # the one word that would bias is redrawn
    assert (2**32 - 1) % PRIME == 0


def test_inverses():
    values = np.array([1, 2, 3, 65535, 65536, 256])
    assert (values * _inverse(values) % PRIME == 1).all()


def test_what_no_secret_was_split_into_opens_to_nothing_and_spoils_no_other():
    secrets = [os.urandom(32) for _ in range(3)]
    shares = split(b"".join(secrets), 2, 2).transpose(1, 0, 2).copy()
    shares[1, 0, 32:] = 255  # no field elements
    shares[1, 0, :32] = 7
    clear = split(bytes(32), 1, 1)  # threshold 1: the share is the polynomial's constant
    clear[0, 0, 32] = 1  # 65,536 is an element, and no limb of a secret
    held = np.ones((3, 2), bool)
    assert combine(shares, held, 2) == [secrets[0], None, secrets[2]]
    assert combine(clear.transpose(1, 0, 2), held[:1, :1], 1) == [None]


def test_a_secret_of_16_bytes_has_shares_of_17():
    secrets = [os.urandom(16), b"\xff" * 16]
    shares = split(b"".join(secrets), 5, 3, size=16)
    assert shares.shape == (5, 2, 17)
    held = np.array([[True, False, True, False, True], [False, True, True, True, True]])
    assert combine(shares.transpose(1, 0, 2), held, 3) == secrets
    with pytest.raises(ValueError, match="16 bytes"):
        split(bytes(32 + 1), 5, 3, size=16)


@pytest.mark.parametrize(("holders", "threshold"), [(2, 3), (2, 0), (65537, 2)])
def test_impossible_thresholds_are_refused(holders, threshold):
    with pytest.raises(ValueError, match="threshold"):
        split(bytes(32), holders, threshold)


def test_too_few_shares_never_open():
    shares = split(bytes(32), 3, 3)
    with pytest.raises(ValueError, match="shares"):
        combine(shares.transpose(1, 0, 2), np.array([[True, True, False]]), 3)
    assert combine(shares[:0].transpose(1, 0, 2)[:0], np.zeros((0, 3), bool), 3) == []
