"""Fully linear proofs of a circuit's statement: prove, query, decide (Section 7.3).

All proofs of a statement are made, and queried, at once: the first axis of every array is theirs.
The gadget is ``ParallelSum(Mul(), pairs)``: the sum of the products of pairs of wires.
"""

from __future__ import annotations

from math import log2

import numpy as np

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.circuit import Counts, wire_length
from flwr_kld.secure_sums.prio3.field import Elements
from flwr_kld.secure_sums.prio3.transform import completed, doubled, weights

_HASHES = 2.0**64
"""That somebody who lies computes to find joint randomness by which a lie passes."""
_SOUND = 100
"""Bits: the chance that any of them passes is at most 2**-100."""


def proof_length(circuit: Counts) -> int:
    """Elements of a proof (``PROOF_LEN``): a seed for each wire, the gadget's polynomial."""
    return 2 * circuit.pairs + 2 * wire_length(circuit.calls) - 1


def query_length(circuit: Counts) -> int:
    """Random elements of a query (``QUERY_RAND_LEN``): a point, and one for each output."""
    return 1 + (circuit.outputs if circuit.outputs > 1 else 0)


def verifier_length(circuit: Counts) -> int:
    """Elements of a verifier (``VERIFIER_LEN``)."""
    return 2 * circuit.pairs + 2


def prove(circuit: Counts, measurement: Elements, seeds: Elements, joint: Elements) -> Elements:
    """Return proofs, shape [proofs, `proof_length`] (Section 7.3.3).

    Parameters
    ----------
    measurement : Elements
        Encoded, shape [elements].
    seeds : Elements
        Prover's randomness, shape [proofs, 2 * pairs]: the first value of each wire.
    joint : Elements
        Joint randomness, shape [proofs, joint].
    """
    field, each = circuit.field, seeds.reshape(len(seeds), -1, 2)
    scale = field.elements(np.ones((len(seeds), circuit.calls), np.int64))
    left, right = (
        doubled(field, _with_seeds(circuit, wires, each[..., i]))
        for i, wires in enumerate(circuit.wires(measurement, joint, scale, 1))
    )
    gadget = field.total(field.multiply(left, right), axis=-2)
    return np.concatenate([seeds, gadget[:, :-1]], axis=-1)


def query(
    circuit: Counts,
    measurement: Elements,
    counts: Elements,
    proofs: Elements,
    query: Elements,
    joint: Elements,
) -> Elements:
    """Return one of two verifier shares, shape [proofs, `verifier_length`] (Section 7.3.4).

    Parameters
    ----------
    measurement, counts, proofs : Elements
        Shares of what `prove` was given, as it is and decoded, and of what it returned.
    query : Elements
        Randomness that no prover knew, shape [proofs, `query_length`].

    Raises
    ------
    InvalidReply
        If a point is one at which the gadget's outputs would show.
    """
    field, arity = circuit.field, 2 * circuit.pairs
    here, twice = weights(field, query[:, -1], wire_length(circuit.calls))
    if (here == 0).any():
        raise InvalidReply("a point of the query is a root of unity")
    gadget = completed(field, proofs[:, arity:])
    output = circuit.check(counts, gadget[:, 2 : 2 * circuit.calls + 1 : 2], 2)
    if circuit.outputs > 1:
        output = field.total(field.multiply(output, query[:, :-1]))[:, None]
    wires = circuit.wires(measurement, joint, here[:, 1 : circuit.calls + 1], 2)
    at_wires = np.stack([field.total(each, axis=1) for each in wires], axis=-1)
    seeds = field.multiply(proofs[:, :arity], here[:, :1])
    at_wires = field.add(at_wires.reshape(seeds.shape), seeds)
    at_gadget = field.total(field.multiply(gadget, twice))[:, None]
    return np.concatenate([output, at_wires, at_gadget], axis=-1)


def decide(circuit: Counts, verifier: Elements) -> bool:
    """Whether the sum of the verifier shares shows valid counts (Section 7.3.5)."""
    field = circuit.field
    wires = verifier[:, 1:-1].reshape(len(verifier), -1, 2)
    gadget = field.total(field.multiply(wires[..., 0], wires[..., 1]))
    return bool((verifier[:, 0] == 0).all() and (gadget == verifier[:, -1]).all())


def proofs_of(circuit: Counts) -> int:
    """Return how many proofs show counts (Section 9.7): three, or more of some 50,000 bits on."""
    return next(n for n in range(3, 256) if soundness(circuit, n) >= _SOUND)


def soundness(circuit: Counts, proofs: int) -> float:
    """Return -log2 of the chance that a lie passes after 2**64 hashes (``docs/proofs/prio3.md``).

    A bit that is none is missed at `pairs` of a call's joint random elements at most, an output
    that is not 0 at one query in a field, a false polynomial at as many points as its degree.
    """
    size, length = circuit.field.modulus, wire_length(circuit.calls)
    missed = (circuit.pairs + 1) / size + 2 * (length - 1) / (size - length)
    return -proofs * log2(missed) - log2(_HASHES)


def _with_seeds(circuit: Counts, wires: Elements, seeds: Elements) -> Elements:
    """Return each wire's values, shape [proofs, pairs, wire_length]: seed, calls, zeros."""
    values = np.zeros((*seeds.shape, wire_length(circuit.calls)), seeds.dtype)
    values[..., 0] = seeds
    values[..., 1 : circuit.calls + 1] = wires.swapaxes(1, 2)
    return values
