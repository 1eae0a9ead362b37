"""Polynomials by their values at roots of unity: number theoretic transforms (Section 6.1.3)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from flwr_kld.secure_sums.prio3.field import Elements, Field64


def powers(field: Field64, first: Elements, base: Elements, count: int) -> Elements:
    """Return `first` times base**0 to base**(count - 1) along a new last axis."""
    found, step = first[..., None], base[..., None]
    while found.shape[-1] < count:
        found = np.concatenate([found, field.multiply(found, step)], axis=-1)
        step = field.multiply(step, step)
    return found[..., :count]


@lru_cache(maxsize=64)
def _roots(field: Field64, order: int) -> Elements:
    """Return the powers of the root of unity of an order (``nth_root_powers``)."""
    root, found = field.root(order), [1]
    for _ in range(order - 1):
        found.append(found[-1] * root % field.modulus)
    return field.decode(b"".join(one.to_bytes(field.size, "little") for one in found))


def evaluated(field: Field64, coefficients: Elements) -> Elements:
    """Return a polynomial's values at the n-th roots of unity, along the last axis (``ntt``)."""
    *rest, n = coefficients.shape
    values = coefficients[..., None]
    while (half := values.shape[-2] // 2) > 0:
        first, second = values[..., :half, :], values[..., half:, :]
        turned = field.multiply(field.subtract(first, second), _roots(field, 2 * half)[:half, None])
        values = np.stack([field.add(first, second), turned], axis=-2).reshape(*rest, half, -1)
    return values.reshape(*rest, n)


def interpolated(field: Field64, values: Elements) -> Elements:
    """Return the coefficients whose `evaluated` these values are (``inv_ntt``)."""
    n = values.shape[-1]
    turned = np.roll(evaluated(field, values)[..., ::-1], 1, axis=-1)
    return field.multiply(turned, _inverse(field, n))


def doubled(field: Field64, values: Elements) -> Elements:
    """Return the values at twice as many roots of unity (``double_evaluations``)."""
    *rest, n = values.shape
    shifted = field.multiply(interpolated(field, values), _roots(field, 2 * n)[:n])
    return np.stack([values, evaluated(field, shifted)], axis=-1).reshape(*rest, 2 * n)


def completed(field: Field64, values: Elements) -> Elements:
    """Append the last value of a polynomial whose highest coefficient is 0.

    It is what ``extend_values_to_power_of_2`` returns for one value that is missing.
    """
    known = field.multiply(values, _roots(field, values.shape[-1] + 1)[1:])
    last = field.subtract(field.elements(np.zeros(values.shape[:-1], np.int64)), field.total(known))
    return np.concatenate([values, last[..., None]], axis=-1)


def weights(field: Field64, point: Elements, n: int) -> tuple[Elements, Elements]:
    """Return what values at the n-th, and the 2 n-th, roots count for at a point (``poly_eval``).

    With z = point / root**k, value k of n counts for the sum of z**i over i < n, divided by n: for
    (1 + z) (1 + z**2) (1 + z**4) … / n.
    """
    ratio = field.multiply(point[..., None], _roots(field, 2 * n)[-np.arange(2 * n)])
    found, one = _inverse(field, n), field.elements([1])
    for _ in range(n.bit_length() - 1):
        found = field.multiply(found, field.add(ratio, one))
        ratio = field.multiply(ratio, ratio)
    twice = field.multiply(field.multiply(found, field.add(ratio, one)), _inverse(field, 2))
    return found[..., ::2], twice


@lru_cache(maxsize=64)
def _inverse(field: Field64, number: int) -> Elements:
    inverse = pow(number, -1, field.modulus)
    return field.decode(inverse.to_bytes(field.size, "little"))
