"""Fields of any prime, in Python's integers, and what proofs in a field come to."""

import numpy as np

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import query


class PlainField(Field64):
    """Integers modulo a prime; `generator` generates a group of `order`, a power of two."""

    def __init__(self, modulus, generator, order, size):
        self.modulus, self.generator, self.order, self.size = modulus, generator, order, size

    def root(self, order):
        return pow(self.generator, self.order // order, self.modulus)

    def elements(self, numbers):
        return np.asarray(numbers, dtype=object) % self.modulus

    def add(self, a, b):
        return (a + b) % self.modulus

    def subtract(self, a, b):
        return (a - b) % self.modulus

    def multiply(self, a, b):
        return (a * b) % self.modulus

    def total(self, a, axis=-1, worth=None):
        return (a if worth is None else a * worth).sum(axis) % self.modulus

    def encode(self, a):
        return b"".join(int(one).to_bytes(self.size, "little") for one in a.ravel())

    def decode(self, encoded):
        found = self._words(encoded)
        if len(encoded) % self.size or any(one >= self.modulus for one in found):
            raise InvalidReply("no elements")
        return np.array(found, dtype=object)

    def below(self, stream):
        mask = (1 << self.modulus.bit_length()) - 1
        found = [one & mask for one in self._words(stream)]
        return np.array([one for one in found if one < self.modulus], dtype=object)

    def _words(self, raw):
        parts = [raw[i : i + self.size] for i in range(0, len(raw), self.size)]
        return [int.from_bytes(part, "little") for part in parts]


FIELD128 = PlainField(
    2**66 * 4611686018427387897 + 1,
    pow(7, 4611686018427387897, 2**66 * 4611686018427387897 + 1),
    2**66,
    16,
)


def verifier_of(circuit, encoded, proofs, share, asked, joint):
    """What both aggregators' verifiers add up to, where one of them has this share of both."""
    field, (own, part) = circuit.field, share
    others = field.subtract(encoded, own), field.subtract(proofs, part)
    return field.add(
        *(
            query(circuit, half, circuit.decode(half), proof, asked, joint)
            for half, proof in ((own, part), others)
        )
    )
