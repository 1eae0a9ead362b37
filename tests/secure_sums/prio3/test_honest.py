"""Counts of honest clients are proved, all of them."""

import math

import numpy as np
import pytest
from plain_field import verifier_of

from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import decide, prove, query_length
from flwr_kld.secure_sums.prio3.shares import NONCE, RANDOM, Prio3

FIELD = Field64()


def refused(clients, cells, seed):
    """How many of so many honest clients are refused, or summed wrongly; records of each differ."""
    drawn, half, wrong = np.random.default_rng(seed), cells // 2, 0
    columns = slice(0, half), slice(half, cells)
    for client in range(clients):
        records = int(drawn.integers(128, 256))
        laws = drawn.dirichlet(np.full(half, 0.3), 2)
        counts = np.concatenate([drawn.multinomial(records, law) for law in laws])
        total = None if client % 2 else records
        prio3 = Prio3(Counts(FIELD, cells, 255, columns, total), b"honest")
        nonce, key = drawn.bytes(NONCE), drawn.bytes(32)
        public, *inputs = prio3.shard(counts, nonce, drawn.bytes(RANDOM))
        both = [
            prio3.verify_init(key, place, nonce, public, own) for place, own in enumerate(inputs)
        ]
        try:
            message = prio3.message(*(own for _, own in both))
            found = FIELD.add(*(prio3.output(checked, message) for checked, _ in both))
        except ValueError:
            wrong += 1
        else:
            wrong += bool((found != counts).any())
    return wrong


def missed(clients, proofs, cells, seed):
    """How many of so many proofs of each client do not hold; all of one client are made at once."""
    drawn, half, wrong = np.random.default_rng(seed), cells // 2, 0

    def elements(*shape):
        return FIELD.below(drawn.bytes(8 * (math.prod(shape) + 8)))[: math.prod(shape)].reshape(
            shape
        )

    for client in range(clients):
        records = int(drawn.integers(128, 256))
        counts = np.concatenate([drawn.multinomial(records, np.full(half, 1 / half)) for _ in "ab"])
        columns = slice(0, half), slice(half, cells)
        circuit = Counts(FIELD, cells, 255, columns, None if client % 2 else records)
        encoded, joint = circuit.encode(counts), elements(proofs, circuit.joint)
        made = prove(circuit, encoded, elements(proofs, 2 * circuit.pairs), joint)
        share, parts = elements(len(encoded)), elements(*made.shape)
        asked = elements(proofs, query_length(circuit))
        both = verifier_of(circuit, encoded, made, (share, parts), asked, joint)
        wrong += sum(not decide(circuit, both[i : i + 1]) for i in range(proofs))
    return wrong


@pytest.mark.parametrize("cells", [20, 200])
def test_honest_clients_are_not_refused(cells):
    assert refused(30, cells, 1) == 0
    assert missed(2, 100, cells, 1) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "cells"), [(1_000, 1_000), (10_000, 20)])
def test_many_honest_clients_are_not_refused(clients, cells):
    """Completeness fails with probability below 2^-50: a query's point is a root of unity."""
    assert refused(clients, cells, 2) == 0


@pytest.mark.slow
def test_a_hundred_thousand_proofs_hold():
    assert missed(100, 1_000, 20, 3) == 0
