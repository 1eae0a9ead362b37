"""Two aggregators refuse counts that are none, and every message that was changed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from splitting import output_of

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import verifier_length
from flwr_kld.secure_sums.prio3.shares import NONCE, RANDOM, Prio3

FIELD = Field64()
P = FIELD.modulus
COLUMNS = (slice(0, 4), slice(4, 7))
COUNTS = np.array([3, 0, 1, 2, 4, 0, 2])
KEY = bytes(range(32))


@dataclass(frozen=True)
class Lying(Counts):
    """A client's circuit: it encodes what it likes, and proves as if it were true."""

    lie: Callable = field(default=lambda encoded: encoded)

    def encode(self, counts):
        return self.lie(super().encode(counts))


def circuit(total=6, largest=6, kind=Counts, **more):
    return kind(FIELD, 7, largest, COLUMNS, total, **more)


def randomness(seed):
    return np.random.default_rng(seed).bytes(NONCE), np.random.default_rng((seed, 1)).bytes(RANDOM)


def accepted(prio3, nonce, public, inputs, keys=(KEY, KEY)):
    """The sum of what both aggregators take of a client."""
    both = [
        prio3.verify_init(key, place, nonce, public, own)
        for place, (key, own) in enumerate(zip(keys, inputs, strict=True))
    ]
    message = prio3.message(*(own for _, own in both))
    return FIELD.add(*(prio3.output(checked, message) for checked, _ in both))


def told(client, aggregators, counts=COUNTS, seed=0):
    nonce, random = randomness(seed)
    public, *inputs = Prio3(client, b"check").shard(counts, nonce, random)
    return accepted(Prio3(aggregators, b"check"), nonce, public, inputs)


@pytest.mark.parametrize("total", [6, None])
@pytest.mark.parametrize("seed", range(4))
def test_honest_counts_are_accepted(total, seed):
    both = circuit(total)
    drawn = np.random.default_rng(seed)
    counts = np.concatenate([drawn.multinomial(6, np.full(n, 1 / n)) for n in (4, 3)])
    assert (told(both, both, counts, seed) == counts).all()


@pytest.mark.parametrize("largest", [1, 2, 5, 6, 7, 8, 100, 255, 256])
def test_every_count_up_to_the_largest_is_encoded(largest):
    each = Counts(FIELD, largest + 1, largest)
    encoded = each.encode(np.arange(largest + 1))
    assert (each.decode(encoded) == np.arange(largest + 1)).all()
    assert set(encoded.tolist()) <= {0, 1}
    assert each.decode(FIELD.elements(np.ones(each.measurement, int))).max() == largest


def instead(place, value):
    def lie(encoded):
        encoded[place] = value % P
        return encoded

    return lie


def moved(encoded):
    """A thousand million from one cell to its neighbour: sums stay as they are."""
    encoded[0], encoded[3] = 1 + 10**9, P - 10**9
    return encoded


LIES = [instead(place, value) for place in (0, 20) for value in (2, -1, P // 2)]


@pytest.mark.parametrize("total", [6, None])
@pytest.mark.parametrize("lie", [*LIES, moved])
def test_bits_that_are_none_are_refused(lie, total):
    with pytest.raises(InvalidReply):
        told(circuit(total, kind=Lying, lie=lie), circuit(total))


@pytest.mark.parametrize(
    "counts",
    [[3, 0, 1, 2, 4, 0, 1], [3, 0, 1, 1, 4, 0, 2], [6, 0, 0, 0, 0, 0, 0], [6, 6, 6, 6, 6, 6, 6]],
)
@pytest.mark.parametrize("total", [6, None])
def test_columns_that_add_up_to_something_else_are_refused(counts, total):
    with pytest.raises(InvalidReply):
        told(circuit(total), circuit(total), np.array(counts))


@pytest.mark.parametrize("claimed", [0, 1, 5, 7, 12, 2**31])
def test_another_number_of_records_than_is_claimed_is_refused(claimed):
    with pytest.raises(InvalidReply):
        told(circuit(6), circuit(claimed))


@pytest.mark.parametrize("bits", [[0, 0, 0], [1, 1, 1], [1, 0, 1], [3, 1, 1], [-1, 1, 1]])
def test_a_hidden_number_of_records_is_bounded(bits):
    """Twelve records of whom at most six may be counted, and whatever is said of their number."""
    counts = Counts(FIELD, 7, 6).encode(np.array([6, 6, 0, 0, 6, 0, 6]))

    def lie(encoded):
        return np.append(counts, np.array([bit % P for bit in bits], dtype=np.uint64))

    with pytest.raises(InvalidReply):
        told(circuit(None, kind=Lying, lie=lie), circuit(None))


@pytest.mark.parametrize("total", [6, None])
@pytest.mark.parametrize("count", [7, 8, 15, -1])
def test_an_honest_client_does_not_encode_what_is_out_of_range(count, total):
    with pytest.raises(InvalidReply):
        circuit(total).encode(np.array([count, 0, 0, 0, count, 0, 0]))


def flips(raw):
    """Changes of bytes: one bit, all bits, none or all set."""
    for name, change in {
        "low": lambda b: b ^ 1, "all": lambda b: b ^ 255,
        "zero": lambda b: 0, "set": lambda b: 255,
    }.items():  # fmt: skip
        yield name, lambda i, c=change: raw[:i] + bytes([c(raw[i])]) + raw[i + 1 :]


def changes(raw, fields):
    """Yield every kind of change of every field: first, middle and last byte, length, swap."""
    start = 0
    for name, size in fields.items():
        for at in sorted({start, start + size // 2, start + size - 1}):
            for kind, change in flips(raw):
                yield f"{name} {at - start} {kind}", change(at)
        part = raw[start : start + size]
        yield f"{name} none", raw[:start] + bytes(size) + raw[start + size :]
        yield f"{name} turned", raw[:start] + part[::-1] + raw[start + size :]
        yield f"{name} missing", raw[:start] + raw[start + size :]
        start += size
    assert start == len(raw)
    yield "empty", b""
    yield "short", raw[:-1]
    yield "long", raw + b"\0"


def test_every_change_of_every_message_is_refused():
    prio3 = Prio3(circuit(), b"check")
    nonce, random = randomness(1)
    public, leader, helper = prio3.shard(COUNTS, nonce, random)
    honest = accepted(prio3, nonce, public, (leader, helper))
    assert (honest == COUNTS).all()
    both = [prio3.verify_init(KEY, i, nonce, public, own) for i, own in enumerate((leader, helper))]
    message = prio3.message(*(own for _, own in both))
    whole, one = prio3.circuit.measurement, verifier_length(prio3.circuit)
    proofs = {f"proof {i}": (len(leader) - 8 * whole - 32) // 3 for i in range(3)}
    verifiers = {f"verifier {i}": 8 * one for i in range(3)}
    part = {"part": 32}

    def as_public(raw):
        return accepted(prio3, nonce, raw, (leader, helper))

    def as_leader(raw):
        return accepted(prio3, nonce, public, (raw, helper))

    def as_helper(raw):
        return accepted(prio3, nonce, public, (leader, raw))

    def as_nonce_of_one(raw):
        first, second = (
            prio3.verify_init(KEY, i, n, public, own)
            for i, (n, own) in enumerate(((raw, leader), (nonce, helper)))
        )
        return finished(first, second)

    def finished(*checked):
        found = prio3.message(*(own for _, own in checked))
        return [prio3.output(kept, found) for kept, _ in checked]

    def as_nonce(raw):
        return accepted(prio3, raw, public, (leader, helper))

    def as_key_of_one(raw):
        return accepted(prio3, nonce, public, (leader, helper), (raw, KEY))

    def as_verifier(place):
        def use(raw):
            shares = [own for _, own in both]
            shares[place] = raw
            found = prio3.message(*shares)
            return [prio3.output(checked, found) for checked, _ in both]

        return use

    def as_message(raw):
        return [prio3.output(checked, raw) for checked, _ in both]

    messages = [
        (as_public, public, {"leader": 32, "helper": 32}),
        (as_leader, leader, {"bits": 8 * whole} | proofs | {"blind": 32}),
        (as_helper, helper, {"seed": 32, "blind": 32}),
        (as_nonce, nonce, {"nonce": NONCE}),
        (as_nonce_of_one, nonce, {"nonce": NONCE}),
        (as_key_of_one, KEY, {"key": 32}),
        (as_verifier(0), both[0][1], verifiers | part),
        (as_verifier(1), both[1][1], verifiers | part),
        (as_message, message, {"seed": 32}),
    ]
    kinds = 0
    for use, raw, fields in messages:
        for kind, changed in changes(raw, fields):
            if changed == raw:
                continue
            kinds += 1
            assert refused(use, changed), (use.__name__, kind)
    assert kinds >= 200


def refused(use, raw):
    try:
        use(raw)
    except InvalidReply:
        return True
    return False


def test_shares_of_another_client_check_or_place_are_refused():
    prio3 = Prio3(circuit(), b"check")
    (nonce, random), (other_nonce, other_random) = randomness(1), randomness(2)
    public, leader, helper = prio3.shard(COUNTS, nonce, random)
    other_public, other_leader, other_helper = prio3.shard(COUNTS, other_nonce, other_random)
    for lie in (
        (nonce, public, (other_leader, helper)),
        (nonce, public, (leader, other_helper)),
        (nonce, other_public, (leader, helper)),
        (other_nonce, public, (leader, helper)),
        (nonce, public[32:] + public[:32], (leader, helper)),
        (nonce, public, (helper, leader)),
        (nonce, public, (leader, leader)),
    ):
        with pytest.raises(InvalidReply):
            accepted(prio3, *lie)
    with pytest.raises(InvalidReply):
        accepted(replace(prio3, context=b"another"), nonce, public, (leader, helper))
    with pytest.raises(InvalidReply):
        accepted(replace(prio3, proofs=4), nonce, public, (leader, helper))
    assert (
        accepted(prio3, other_nonce, other_public, (other_leader, other_helper)) == COUNTS
    ).all()


@pytest.mark.parametrize("place", [0, 1])
def test_one_aggregators_share_says_nothing(place):
    """Of counts that are all alike, the shares' bits are set as often as not."""
    many = Counts(FIELD, 2000, 1)
    nonce, random = randomness(3)
    prio3 = Prio3(many, b"check")
    public, *inputs = prio3.shard(np.zeros(2000, int), nonce, random)
    checked, verifier = prio3.verify_init(KEY, place, nonce, public, inputs[place])
    for raw in (FIELD.encode(output_of(checked)), verifier):
        ones = np.unpackbits(np.frombuffer(raw, np.uint8)).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(8 * len(raw))
