"""Prio3 between two aggregators: shard, and what each of them computes (Section 7.2).

The first one, the draft's leader, receives a share of every element, and the second, its helper, a
seed of the other share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import set_fields
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Private
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.expander import SEED, Expander
from flwr_kld.secure_sums.prio3.field import Elements
from flwr_kld.secure_sums.prio3.proof import (
    decide,
    proof_length,
    proofs_of,
    prove,
    query,
    query_length,
    verifier_length,
)

NONCE = 16
"""Bytes of a client's nonce (``NONCE_SIZE``)."""
RANDOM = 4 * SEED
"""Random bytes that `shard` uses (``RAND_SIZE``)."""
_VERSION = 18
"""Of the draft's algorithms: number 20 has the same as 18."""
LEADER, HELPER = 0, 1
"""Places of the two aggregators."""


class _Usage(IntEnum):
    """What random elements are for (``USAGE_…``)."""

    MEASUREMENT = 1
    PROOF = 2
    JOINT = 3
    PROVE = 4
    QUERY = 5
    JOINT_SEED = 6
    JOINT_PART = 7


class _Read(NamedTuple):
    """An aggregator's share of a client, its own part of joint randomness, and the seed."""

    measurement: Elements
    proofs: Elements
    part: bytes
    seed: bytes


class Checked(Private):
    """What one aggregator keeps of a client until it has the other's verifier share. Private."""

    __slots__ = ("_output", "_seed")

    def __init__(self, output: Elements, seed: bytes) -> None:
        self._output, self._seed = output, seed


@dataclass(frozen=True)
class Prio3:
    """Shares of one kind of counts and of their proofs.

    Parameters
    ----------
    circuit : Counts
        What is proved.
    context : bytes
        What the shares are for (``ctx``); shares of another context are worth nothing.
    proofs : int
        Number of proofs (``PROOFS``); 0 for `proofs_of`.
    algorithm : int
        Identifier of the variant (``ID``), by default one for private use (Section 10).
    """

    circuit: Counts
    context: bytes
    proofs: int = 0
    algorithm: int = 0xFFFF4B4C

    def __post_init__(self) -> None:
        set_fields(self, proofs=self.proofs or proofs_of(self.circuit))

    def shard(
        self, counts: NDArray[np.int64], nonce: bytes, random: bytes
    ) -> tuple[bytes, bytes, bytes]:
        """Return the public share, and the input shares of leader and helper (Section 7.2.1)."""
        field, circuit = self.circuit.field, self.circuit
        share, helper_blind, leader_blind, prove_seed = (
            random[first : first + SEED] for first in range(0, RANDOM, SEED)
        )
        encoded = circuit.encode(counts)
        helper, helper_proofs = self._expanded(share)
        leader = field.subtract(encoded, helper)
        parts = (
            self._joint_part(LEADER, leader_blind, leader, nonce),
            self._joint_part(HELPER, helper_blind, helper, nonce),
        )
        joint = self._joint(self._joint_seed(*parts))
        seeds = self._random(prove_seed, _Usage.PROVE, self._proofs, 2 * circuit.pairs)
        proofs = field.subtract(prove(circuit, encoded, seeds, joint), helper_proofs)
        return (
            b"".join(parts),
            field.encode(leader) + field.encode(proofs) + leader_blind,
            share + helper_blind,
        )

    def verify_init(
        self, key: bytes, place: int, nonce: bytes, public: bytes, share: bytes
    ) -> tuple[Checked, bytes]:
        """Return what an aggregator keeps, and its verifier share (Section 7.2.2).

        Parameters
        ----------
        key : bytes
            The verification key, 32 bytes, which both aggregators know and nobody else.
        place : int
            0 for the leader, 1 for the helper.
        public, share : bytes
            The public share, and this aggregator's input share.

        Raises
        ------
        InvalidReply
            If these are not what `shard` returns.
        """
        read = self._read(place, nonce, public, share)
        random = self._random(key, _Usage.QUERY, self._proofs + nonce, query_length(self.circuit))
        counts, joint = self.circuit.decode(read.measurement), self._joint(read.seed)
        verifier = query(self.circuit, read.measurement, counts, read.proofs, random, joint)
        checked = Checked(self.circuit.truncate(counts), read.seed)
        return checked, self.circuit.field.encode(verifier) + read.part

    def checked(self, place: int, nonce: bytes, public: bytes, share: bytes) -> Checked:
        """Return what `verify_init` returned as to keep, without another query."""
        read = self._read(place, nonce, public, share)
        return Checked(self.circuit.truncate(self.circuit.decode(read.measurement)), read.seed)

    def message(self, leader: bytes, helper: bytes) -> bytes:
        """Return the verifier message of two shares (``verifier_shares_to_message``).

        Raises `InvalidReply` if they do not show valid counts.
        """
        verifiers = [self._verifier(share) for share in (leader, helper)]
        if not decide(self.circuit, self.circuit.field.add(*verifiers)):
            raise InvalidReply("the proof fails")
        return self._joint_seed(leader[-SEED:], helper[-SEED:])

    def output(self, checked: Checked, message: bytes) -> Elements:
        """Return this aggregator's share of counts that are proved (``verify_next``).

        Raises `InvalidReply` if the proof was made with another joint randomness.
        """
        if message != checked._seed:
            raise InvalidReply("the proof is of other joint randomness")
        return checked._output

    @property
    def _proofs(self) -> bytes:
        return bytes([self.proofs])

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """Elements of a measurement, and of all its proofs."""
        return self.circuit.measurement, self.proofs * proof_length(self.circuit)

    def _read(self, place: int, nonce: bytes, public: bytes, share: bytes) -> _Read:
        """Read a share, and what follows from it of joint randomness."""
        if len(public) != 2 * SEED:
            raise InvalidReply("the public share has the wrong length")
        measurement, proofs, blind = self._input(place, share)
        parts = [public[:SEED], public[SEED:]]
        parts[place] = own = self._joint_part(place, blind, measurement, nonce)
        return _Read(measurement, proofs, own, self._joint_seed(*parts))

    def _input(self, place: int, share: bytes) -> tuple[Elements, Elements, bytes]:
        """Return shares of measurement and proofs, and a blind (``expand_input_share``)."""
        field, (measurement, proofs) = self.circuit.field, self._lengths
        elements = field.size * (measurement + proofs) if place == LEADER else SEED
        if len(share) != elements + SEED:
            raise InvalidReply("an input share has the wrong length")
        if place == HELPER:
            return *self._expanded(share[:SEED]), share[SEED:]
        found = field.decode(share[:elements])
        return found[:measurement], found[measurement:].reshape(self.proofs, -1), share[elements:]

    def _expanded(self, seed: bytes) -> tuple[Elements, Elements]:
        """Return the helper's shares (``helper_meas_share``, ``helper_proofs_share``)."""
        field, helper = self.circuit.field, bytes([HELPER])
        measurement = self._expander(seed, _Usage.MEASUREMENT, helper)
        proofs = self._random(seed, _Usage.PROOF, self._proofs + helper, proof_length(self.circuit))
        return measurement.elements(field, self.circuit.measurement), proofs

    def _verifier(self, share: bytes) -> Elements:
        field, length = self.circuit.field, verifier_length(self.circuit)
        if len(share) != field.size * self.proofs * length + SEED:
            raise InvalidReply("a verifier share has the wrong length")
        return field.decode(share[:-SEED]).reshape(self.proofs, length)

    def _joint_part(self, place: int, blind: bytes, measurement: Elements, nonce: bytes) -> bytes:
        """Return what binds joint randomness to a share (``joint_rand_part``)."""
        binder = bytes([place]) + nonce + self.circuit.field.encode(measurement)
        return self._expander(blind, _Usage.JOINT_PART, binder).seed()

    def _joint_seed(self, leader: bytes, helper: bytes) -> bytes:
        """Return the seed of joint randomness from both parts (``joint_rand_seed``)."""
        return self._expander(bytes(SEED), _Usage.JOINT_SEED, leader + helper).seed()

    def _joint(self, seed: bytes) -> Elements:
        """Return joint randomness of all proofs (``joint_rands``)."""
        return self._random(seed, _Usage.JOINT, self._proofs, self.circuit.joint)

    def _random(self, seed: bytes, usage: _Usage, binder: bytes, count: int) -> Elements:
        """Return so many elements for each proof, shape [proofs, count]."""
        stream = self._expander(seed, usage, binder)
        return stream.elements(self.circuit.field, self.proofs * count).reshape(self.proofs, count)

    def _expander(self, seed: bytes, usage: _Usage, binder: bytes) -> Expander:
        """Return the stream of a seed for one use (``domain_separation_tag``)."""
        head = bytes([_VERSION, 0]) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big")
        return Expander(seed, head + self.context, binder)
