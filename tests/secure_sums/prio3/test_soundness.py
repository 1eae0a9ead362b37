"""In a small field lies pass as often as the proof note says, and no more often."""

from itertools import combinations, product

import numpy as np
import pytest
from plain_field import PlainField, verifier_of
from scipy.stats import binom

from flwr_kld.secure_sums.prio3.circuit import Counts, wire_length
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import decide, proofs_of, prove, soundness
from flwr_kld.secure_sums.prio3.transform import evaluated

FIELD = PlainField(193, 125, 64, 1)
TINY = PlainField(17, 3, 16, 1)
TRIALS = 4000
ERROR = 1e-6
"""How often chance alone fails one of these tests, on either side."""


def random(field, *shape, seed):
    return field.elements(np.random.default_rng(seed).integers(0, field.modulus, shape))


def points(field, roots, *shape, seed):
    """Points that are no roots of unity of an order."""
    allowed = [x for x in range(field.modulus) if pow(x, roots, field.modulus) != 1]
    return field.elements(np.random.default_rng(seed).choice(allowed, shape))


def passed(circuit, measurement, *, lie=None, seed=0, trials=TRIALS):
    """How many of independent proofs pass; `lie` changes proofs before they are split."""
    field = circuit.field
    joint = random(field, trials, circuit.calls, seed=(seed, 1))
    wires = random(field, trials, 2 * circuit.pairs, seed=(seed, 2))
    proofs = prove(circuit, measurement, wires, joint)
    if lie is not None:
        proofs = field.add(proofs, lie(circuit, measurement, joint))
    share, half = (
        random(field, *proofs.shape, seed=(seed, 3)),
        random(field, *measurement.shape, seed=(seed, 4)),
    )
    outputs = circuit.outputs if circuit.outputs > 1 else 0
    asked = np.concatenate(
        [
            random(field, trials, outputs, seed=(seed, 5)),
            points(field, wire_length(circuit.calls), trials, 1, seed=(seed, 6)),
        ],
        axis=1,
    )
    verifier = verifier_of(circuit, measurement, proofs, (half, share), asked, joint)
    return [decide(circuit, verifier[i : i + 1]) for i in range(trials)]


def require_rate(passing, rate):
    number, trials = sum(passing), len(passing)
    assert binom.cdf(number, trials, rate) > ERROR, (number / trials, rate)
    assert binom.sf(number - 1, trials, rate) > ERROR, (number / trials, rate)


def test_honest_proofs_pass():
    circuit = Counts(FIELD, 3, 7, (slice(0, 3),), 6, chunk=3)
    assert all(passed(circuit, circuit.encode(np.array([1, 2, 3]))))
    hidden = Counts(FIELD, 3, 7, (slice(0, 3),), chunk=3)
    assert all(passed(hidden, hidden.encode(np.array([1, 0, 3]))))


def bits_of(field, errors):
    """For each error the x with x (x - 1) = error, if there is one for all."""
    found = [
        next((x for x in range(field.modulus) if x * (x - 1) % field.modulus == e), None)
        for e in errors
    ]
    return None if None in found else found


def test_bits_that_are_none_pass_at_as_many_random_elements_as_a_call_has_bits():
    """The errors of one call are the coefficients of a polynomial that has only roots there."""
    circuit, p = Counts(FIELD, 2, 7, chunk=3), FIELD.modulus
    lies = next(
        found
        for (a, b), scale in product(combinations(range(1, p), 2), range(1, 9))
        if (found := bits_of(FIELD, [scale * e % p for e in (a * b, -a - b, 1)])) is not None
    )
    measurement = FIELD.elements([*lies, 1, 0, 1])
    require_rate(passed(circuit, measurement), 3 / p)


def test_a_wrong_sum_passes_at_one_query_in_a_field():
    circuit = Counts(FIELD, 3, 7, (slice(0, 3),), 7, chunk=3)
    measurement = circuit.encode(np.array([1, 2, 3]))
    require_rate(passed(circuit, measurement), 1 / FIELD.modulus)


def false_polynomial(circuit, measurement, joint):
    """Add to gadget polynomials what hides a false output, and is 0 at as many points as may be."""
    field, length, p = circuit.field, wire_length(circuit.calls), circuit.field.modulus
    allowed = [x for x in range(p) if pow(x, length, p) != 1]
    coefficients = np.array([1], dtype=object)
    for root in allowed[: 2 * (length - 1)]:
        shifted = np.append(0, coefficients)
        shifted[:-1] -= root * coefficients
        coefficients = shifted % p
    one = evaluated(field, np.append(coefficients, 0)[None])[0]
    alone = int(field.total(one[2 : 2 * circuit.calls + 1 : 2]))
    wires = circuit.wires(measurement, joint, field.elements(np.ones(joint.shape, int)), 1)
    false = field.total(field.total(field.multiply(*wires)))
    scale = field.multiply(field.subtract(field.elements([0]), false), pow(alone, -1, p))
    added = field.multiply(scale[:, None], one[None, :-1])
    return np.concatenate([np.zeros((len(joint), 2 * circuit.pairs), dtype=object), added], axis=1)


@pytest.mark.parametrize("field", [FIELD, TINY])
def test_a_false_polynomial_passes_at_as_many_points_as_its_degree(field):
    circuit = Counts(field, 2, 7, chunk=2)
    measurement = field.elements([2, 1, 1, 0, 0, 1])
    p, length = field.modulus, wire_length(circuit.calls)
    # One bit is none: where its random element is 0, nothing shows, and nothing is to be hidden.
    rate = 1 / p + (1 - 1 / p) * 2 * (length - 1) / (p - length)
    passing = passed(circuit, measurement, lie=false_polynomial, trials=3 * TRIALS)
    require_rate(passing, rate)
    together = np.reshape(passing, (-1, 3)).all(axis=1)
    require_rate(together, rate**3)


def test_soundness_adds_up_what_these_lies_reach():
    circuit = Counts(FIELD, 2, 7, chunk=2)
    p, length = FIELD.modulus, wire_length(circuit.calls)
    missed = (circuit.pairs + 1) / p + 2 * (length - 1) / (p - length)
    assert 2.0 ** -(soundness(circuit, 3) + 64) == pytest.approx(missed**3)


def test_three_proofs_are_sound_and_more_where_counts_are_many():
    field = Field64()
    for length, largest, proofs in (
        (20, 255, 3),
        (1000, 255, 3),
        (1000, 2**16 - 1, 3),
        (10_000, 255, 4),
    ):
        circuit = Counts(field, length, largest)
        assert proofs_of(circuit) == proofs
        assert soundness(circuit, proofs) >= 100
