"""Field64 is the integers modulo its prime, and transforms are polynomials' values there."""

import numpy as np
import pytest
from plain_field import FIELD128, PlainField

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.transform import (
    completed,
    doubled,
    evaluated,
    interpolated,
    weights,
)

FIELD = Field64()
P = FIELD.modulus
PLAIN = PlainField(P, pow(7, 2**32 - 1, P), 2**32, 8)
EDGES = [
    0,
    1,
    2,
    2**16,
    2**31,
    2**32 - 2,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**63,
    P - 2**32,
    P - 2,
    P - 1,
]


def values(count):
    drawn = np.random.default_rng(0).integers(0, P, count, dtype=np.uint64)
    return np.append(drawn, np.array(EDGES, dtype=np.uint64))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_all_pairs_are_those_of_plain_integers(name):
    some = values(100)
    a, b = some[:, None], some[None]
    ours = getattr(FIELD, name)(a, b)
    truth = getattr(PLAIN, name)(a.astype(object), b.astype(object))
    assert ours.shape == truth.shape
    assert (ours.astype(object) == truth).all()


def test_products_of_many_blocks():
    a, b = values(30_000), values(30_000)[::-1]
    assert (FIELD.multiply(a, b).astype(object) == a.astype(object) * b.astype(object) % P).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_totals_are_those_of_plain_integers(axis):
    some = np.concatenate([values(987), np.full(1000, P - 1, dtype=np.uint64)]).reshape(20, -1)
    truth = PLAIN.total(some.astype(object), axis)
    assert (FIELD.total(some, axis).astype(object) == truth).all()
    worth = 2 ** np.arange(20)
    weighed = FIELD.total(some.T, worth=worth).astype(object)
    assert (weighed == PLAIN.total(some.T.astype(object), worth=worth)).all()


def test_encoding_reads_back_and_nothing_else_is_read():
    some = values(50)
    assert (FIELD.decode(FIELD.encode(some)) == some).all()
    for bad in (P, 2**64 - 1):
        with pytest.raises(InvalidReply):
            FIELD.decode(FIELD.encode(some) + bad.to_bytes(8, "little"))
    with pytest.raises(InvalidReply):
        FIELD.decode(FIELD.encode(some)[:-1])


def test_words_that_are_no_elements_are_left_out():
    words = [1, P, 2, 2**64 - 1, P - 1]
    stream = b"".join(word.to_bytes(8, "little") for word in words)
    assert FIELD.below(stream).tolist() == [1, 2, P - 1]


def at(field, coefficients, x):
    return (
        sum(int(c) * pow(x, i, field.modulus) for i, c in enumerate(coefficients)) % field.modulus
    )


@pytest.mark.parametrize("field", [FIELD, FIELD128, PlainField(193, 125, 64, 1)])
@pytest.mark.parametrize("n", [1, 2, 4, 16])
def test_transforms_are_values_at_roots_of_unity(field, n):
    numbers = np.random.default_rng(n).integers(0, 193, (3, n))
    coefficients = field.elements(numbers)
    found = evaluated(field, coefficients)
    assert pow(field.root(2 * n), n, field.modulus) == field.modulus - 1
    for row, own in zip(found, coefficients, strict=True):
        assert [int(y) for y in row] == [
            at(field, own, pow(field.root(n), k, field.modulus)) for k in range(n)
        ]
    assert (interpolated(field, found) == coefficients).all()
    twice = doubled(field, found)
    point = field.elements([2, 3, 190])
    at_n, at_2n = weights(field, point, n)
    truth = [at(field, own, int(x)) for own, x in zip(coefficients, point, strict=True)]
    assert [int(y) for y in field.total(field.multiply(found, at_n))] == truth
    assert [int(y) for y in field.total(field.multiply(twice, at_2n))] == truth
    assert (completed(field, twice[:, :-1]) == twice).all()


@pytest.mark.parametrize("n", [2, 8])
def test_at_a_root_of_unity_all_values_but_one_count_nothing(n):
    root = FIELD.root(n)
    point = np.array([pow(root, k, P) for k in range(n)], dtype=np.uint64)
    assert (weights(FIELD, point, n)[0] == np.eye(n, dtype=np.uint64)).all()
