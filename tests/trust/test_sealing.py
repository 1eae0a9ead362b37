"""Boxes open with one key, in one context, unchanged; and show nothing else."""

import hmac
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.kernel.channels import seal
from flwr_kld.trust.sealing import (
    OVERHEAD,
    AggregatorKey,
    NotOpened,
    SealContext,
    check_public,
    open_sealed,
)

KEY = AggregatorKey(bytes(range(32)))
CONTEXT = SealContext(1, "terms", "1000:0")
COUNTS = bytes(range(40))
VECTOR = json.loads(Path(__file__).with_name("sealing_vector.json").read_text())


def test_known_answer():
    context = SealContext(**VECTOR["context"])
    key = AggregatorKey(bytes.fromhex(VECTOR["key"]))
    assert key.public.hex() == VECTOR["public"]
    assert context.to_bytes().hex() == VECTOR["info"]
    assert open_sealed(key, bytes.fromhex(VECTOR["box"]), context).hex() == VECTOR["counts"]


def test_the_box_is_the_one_of_rfc_9180():
    """Base mode, sealed once, put together once more from the RFC's own definitions."""
    one_use = x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTOR["one_use"]))
    box = sealed_by_the_rfc(
        one_use, *(bytes.fromhex(VECTOR[name]) for name in ("public", "counts", "info"))
    )
    assert box.hex() == VECTOR["box"]


def sealed_by_the_rfc(one_use, public: bytes, counts: bytes, info: bytes) -> bytes:
    def extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
        return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")

    def expand(suite: bytes, key: bytes, label: bytes, text: bytes, length: int) -> bytes:
        """One block of HKDF-Expand is enough: no key here is longer than a hash."""
        labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + text
        return hmac.digest(key, labelled + b"\x01", "sha256")[:length]

    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
    enc = one_use.public_key().public_bytes_raw()
    agreed = one_use.exchange(x25519.X25519PublicKey.from_public_bytes(public))
    secret = extract(kem, b"", b"eae_prk", agreed)
    shared = expand(kem, secret, b"shared_secret", enc + public, 32)
    schedule = b"\0" + extract(suite, b"", b"psk_id_hash", b"")
    schedule += extract(suite, b"", b"info_hash", info)
    secret = extract(suite, shared, b"secret", b"")
    key = expand(suite, secret, b"key", schedule, 32)
    nonce = expand(suite, secret, b"base_nonce", schedule, 12)
    return enc + ChaCha20Poly1305(key).encrypt(nonce, counts, b"")


@pytest.mark.parametrize(
    "change",
    [
        {"run": 2},
        {"terms": "other terms"},
        {"sender": "1001:0"},
        {"terms": "terms1", "sender": "000:0"},  # the same letters, divided otherwise
    ],
)
def test_a_box_opens_in_no_other_context(change):
    with pytest.raises(NotOpened):
        open_sealed(KEY, seal(KEY.public, COUNTS, CONTEXT.to_bytes()), replace(CONTEXT, **change))


def test_every_changed_bit_is_noticed():
    box = seal(KEY.public, COUNTS, CONTEXT.to_bytes())
    for bit in range(8 * len(box)):
        if bit == 255:
            continue  # X25519 ignores it in a public key; HPKE does not (next test)
        changed = bytearray(box)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(NotOpened):
            open_sealed(KEY, bytes(changed), CONTEXT)


def test_the_spare_bit_of_the_one_use_key_is_noticed_too():
    box = bytearray(seal(KEY.public, COUNTS, CONTEXT.to_bytes()))
    box[31] ^= 0x80
    with pytest.raises(NotOpened):
        open_sealed(KEY, bytes(box), CONTEXT)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, OVERHEAD - 1, OVERHEAD, OVERHEAD + 39])
def test_cut_boxes_do_not_open(length):
    with pytest.raises(NotOpened):
        open_sealed(KEY, seal(KEY.public, COUNTS, CONTEXT.to_bytes())[:length], CONTEXT)


def test_longer_boxes_do_not_open():
    with pytest.raises(NotOpened):
        open_sealed(KEY, seal(KEY.public, COUNTS, CONTEXT.to_bytes()) + b"\0", CONTEXT)


LOW_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
]
"""Every encoding of a point with which whatever key agrees on zeros, the ignored bit left at 0."""


@pytest.mark.parametrize("spare", [0, 0x80])
@pytest.mark.parametrize("point", LOW_ORDER)
def test_low_order_points_are_refused_on_both_sides(point, spare):
    raw = bytearray.fromhex(point)
    raw[31] |= spare
    with pytest.raises(ValueError, match="low-order"):
        check_public(bytes(raw))
    for length in (16, 17, 56, 999):
        with pytest.raises(NotOpened):
            open_sealed(KEY, bytes(raw) + bytes(length), CONTEXT)


@settings(max_examples=examples(500))
@given(st.binary(max_size=200))
def test_whatever_else_a_box_holds_it_just_does_not_open(box):
    with pytest.raises(NotOpened):
        open_sealed(KEY, box, CONTEXT)


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), "aa" * 32, None])
def test_a_public_key_is_32_bytes(public):
    with pytest.raises(ValueError, match="32"):
        check_public(public)


def test_sealing_twice_shares_nothing_and_lengths_tell_nothing():
    boxes = [seal(KEY.public, counts, CONTEXT.to_bytes()) for counts in (COUNTS, COUNTS, bytes(40))]
    assert len({len(box) for box in boxes}) == 1 == len({OVERHEAD + 40, len(boxes[0])})
    assert len({box[:32] for box in boxes}) == 3
    assert len({box[32:] for box in boxes}) == 3


def test_a_key_survives_a_file_that_only_its_owner_reads(tmp_path):
    key, file = AggregatorKey.generate(), tmp_path / "key"
    key.save(file)
    assert AggregatorKey.load(file).public == key.public
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        key.save(file)
