"""One promise of privacy: what it accepts, covers, says, and that nothing spells it again."""

import json
import math
from dataclasses import dataclass

import pytest
from pydantic import Json

from flwr_kld.common.strict_model import DecodingError, Model
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients

PROTECTED = ["record", WholeClients(1), WholeClients(50)]
NUMBERS = {"epsilon": (0.5, 1.0), "delta": (0.0, 1e-9)}


@dataclass(frozen=True)
class Promise(Model, what="the promise"):
    guarantee: Json[Guarantee]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.0,), "epsilon"),
        ((-1.0,), "epsilon"),
        ((math.inf,), "epsilon"),
        ((math.nan,), "epsilon"),
        ((True,), "epsilon"),
        (("1",), "epsilon"),
        ((1.0, -1e-9), "delta"),
        ((1.0, 1.0), "delta"),
        ((1.0, math.nan), "delta"),
        ((1.0, 0.0, "client"), "protects"),
        ((1.0, 0.0, 50), "protects"),
    ],
)
def test_what_is_no_promise_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        Guarantee(*values)


def test_a_whole_number_becomes_a_float():
    assert type(Guarantee(1).epsilon) is float
    assert Guarantee(1) == Guarantee(1.0)


@pytest.mark.parametrize("epsilon", NUMBERS["epsilon"])
@pytest.mark.parametrize("delta", NUMBERS["delta"])
def test_a_looser_promise_covers_a_tighter_one(epsilon, delta):
    loosest, promised = Guarantee(1.0, 1e-9), Guarantee(epsilon, delta)
    assert loosest.covers(promised)
    assert promised.covers(loosest) == (promised == loosest)


@pytest.mark.parametrize("mine", PROTECTED)
@pytest.mark.parametrize("other", PROTECTED)
def test_a_promise_covers_only_what_protects_the_same(mine, other):
    assert Guarantee(1.0, protects=mine).covers(Guarantee(1.0, protects=other)) == (mine == other)


@pytest.mark.parametrize("most", [0, -1, 2**20, 1.5, True])
def test_whole_clients_have_a_limit(most):
    with pytest.raises(ValueError, match="most_records"):
        WholeClients(most)


@pytest.mark.parametrize("protects", PROTECTED)
def test_a_promise_survives_the_wire(protects):
    promised = Promise(Guarantee(0.1, 1e-9, protects))
    assert Promise.from_config(promised.to_config()) == promised


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 1),
        ("epsilon", None),
        ("delta", False),
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("delta", 1.0),
        ("protects", "client"),
        ("protects", 3),
        ("protects", {"most_records": 0}),
        ("protects", {"most_records": True}),
        ("protects", {"most_records": 5, "more": 1}),
        ("more", 1),
    ],
)
def test_what_crosses_the_wire_is_read_strictly(name, value):
    with pytest.raises(DecodingError):
        Promise.from_config({"guarantee": json.dumps(vars(Guarantee(1.0)) | {name: value})})
