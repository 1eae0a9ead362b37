"""The draft's own test vectors, to the byte.

``FLWR_KLD_VDAF`` names a folder with those of draft-irtf-cfrg-vdaf-20 and of libprio-rs. One of
them is known by its digest, without it.
"""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from plain_field import FIELD128

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.expander import Expander
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import decide, query
from flwr_kld.secure_sums.prio3.shares import Prio3

FOLDER = Path(os.environ.get("FLWR_KLD_VDAF", "/nowhere"))
FIELD64 = Field64()
ID = {"SumVec": 3, "Histogram": 4, "L1BoundSum": 7, "SumVecWithMultiproof": 0xFFFFFFFF}


def read(name):
    file = FOLDER / f"Prio3{name}.json"
    if not file.is_file():
        pytest.skip("the vectors are not here")
    return json.loads(file.read_text())


def joined(parts):
    return bytes.fromhex("".join([parts] if isinstance(parts, str) else parts))


def prio3_of(name, told):
    kind, length = name.split("_")[0], told["length"]
    multiproof = kind.endswith("Multiproof")
    field = FIELD64 if multiproof else FIELD128
    largest = told.get("max_measurement") or told.get("max_value") or 1
    columns = () if kind.startswith("SumVec") else (slice(0, length),)
    circuit = Counts(
        field, length, largest, columns,
        total=1 if kind == "Histogram" else None, chunk=told["chunk_length"],
    )  # fmt: skip
    return Prio3(circuit, joined(told["ctx"]), 3 if multiproof else 1, ID[kind])


def counts_of(report, told):
    given = report["measurement"]
    return np.array(given) if isinstance(given, list) else np.eye(told["length"], dtype=int)[given]


@pytest.mark.parametrize(
    "name", ["SumVecWithMultiproof_0", "SumVec_0", "Histogram_0", "L1BoundSum_0"]
)
def test_every_message_is_the_vectors(name):
    told = read(name)
    prio3, key = prio3_of(name, told), joined(told["verify_key"])
    field = prio3.circuit.field
    for report in told["reports"]:
        nonce = joined(report["nonce"])
        public, *inputs = prio3.shard(counts_of(report, told), nonce, joined(report["rand"]))
        assert public == joined(report["public_share"])
        assert inputs == [joined(share) for share in report["input_shares"]]
        both = [prio3.verify_init(key, i, nonce, public, own) for i, own in enumerate(inputs)]
        assert [own for _, own in both] == [joined(v) for v in report["verifier_shares"][0]]
        message = prio3.message(*(own for _, own in both))
        assert message == joined(report["verifier_messages"][0])
        outputs = [prio3.output(checked, message) for checked, _ in both]
        assert [field.encode(own) for own in outputs] == [joined(o) for o in report["out_shares"]]
        assert (field.add(*outputs) == counts_of(report, told)).all()


def test_the_vectors_messages_by_their_digest():
    """Of Prio3SumVecWithMultiproof_0, whose inputs are numbers that count up."""
    prio3 = Prio3(
        Counts(FIELD64, 10, 255, chunk=9), b"some application", 3, ID["SumVecWithMultiproof"]
    )
    nonce, key = bytes(range(16)), bytes(range(32))
    public, *inputs = prio3.shard(np.arange(10), nonce, bytes(range(128)))
    both = [prio3.verify_init(key, i, nonce, public, own) for i, own in enumerate(inputs)]
    message = prio3.message(*(own for _, own in both))
    said = b"".join([public, *inputs, *(own for _, own in both), message])
    assert sha256(said).hexdigest() == (
        "3a102be003110c68d143237e712c2b127f2bb3c0228da9446e9418674fbe77ea"
    )


@pytest.mark.parametrize("name", ["helper_jr_blind", "leader_jr_blind", "public_share"])
def test_a_histogram_of_bad_shares_fails(name):
    told = read(f"Histogram_bad_{name}")
    prio3, report = prio3_of("Histogram_0", told), told["reports"][0]
    both = verified(prio3, told, report)
    assert [own for _, own in both] == [joined(v) for v in report["verifier_shares"][0]]
    with pytest.raises(InvalidReply):
        prio3.message(*(own for _, own in both))


def test_a_histogram_with_another_verifier_message_fails():
    told = read("Histogram_bad_verifier_message")
    prio3, report = prio3_of("Histogram_0", told), told["reports"][0]
    for checked, _ in verified(prio3, told, report):
        with pytest.raises(InvalidReply):
            prio3.output(checked, joined(report["verifier_messages"][0]))


def verified(prio3, told, report):
    key, nonce, public = map(joined, (told["verify_key"], report["nonce"], report["public_share"]))
    return [
        prio3.verify_init(key, place, nonce, public, joined(own))
        for place, own in enumerate(report["input_shares"])
    ]


@dataclass(frozen=True)
class Count:
    """`Prio3Count` (Section 7.4.1): b b - b is 0; no joint randomness, and one call."""

    field: Field64 = FIELD64
    pairs = calls = outputs = 1

    def wires(self, measurement, joint, scale, shares):
        both = self.field.multiply(measurement, scale)[:, :, None]
        return both, both

    def check(self, counts, called, shares):
        return self.field.subtract(called, counts)


@pytest.mark.parametrize("name", ["gadget_poly", "helper_seed", "meas_share", "wire_seed"])
def test_a_count_of_bad_shares_fails(name):
    told = read(f"Count_bad_{name}")
    report, context = told["reports"][0], joined(told["ctx"])
    leader = FIELD64.decode(joined(report["input_shares"][0]))
    seed = joined(report["input_shares"][1])

    def stream(key, usage, binder):
        return Expander(key, bytes([18, 0, 0, 0, 0, 1, 0, usage]) + context, binder)

    helper = np.append(
        stream(seed, 1, b"\1").elements(FIELD64, 1), stream(seed, 2, b"\1\1").elements(FIELD64, 5)
    )
    point = stream(joined(told["verify_key"]), 5, b"\1" + joined(report["nonce"]))
    asked = point.elements(FIELD64, 1)[None]
    shares = [
        query(Count(), own[:1], own[:1], own[None, 1:], asked, None) for own in (leader, helper)
    ]
    assert [FIELD64.encode(own) for own in shares] == list(
        map(joined, report["verifier_shares"][0])
    )
    assert not decide(Count(), FIELD64.add(*shares))


def test_the_expander():
    file = FOLDER / "XofTurboShake128.json"
    if not file.is_file():
        pytest.skip("the vectors are not here")
    told = json.loads(file.read_text())
    start = [joined(told[part]) for part in ("seed", "dst", "binder")]
    assert Expander(*start).seed() == joined(told["derived_seed"])
    found = Expander(*start).elements(FIELD128, told["length"])
    assert FIELD128.encode(found) == joined(told["expanded_vec_field128"])
