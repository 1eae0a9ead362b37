"""One promise of privacy: what it accepts, covers, says, and that nothing spells it again."""

import json
import math
from dataclasses import dataclass
from itertools import product

import pytest
from pydantic import Json

from flwr_kld.codec.model import Model, Unreadable
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.promise import Adjacency

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
RELATIONS = list(product(Adjacency, Unit))
NUMBERS = {"epsilon": (0.5, 1.0), "delta": (0.0, 1e-9)}


@dataclass(frozen=True)
class Promise(Model, what="the promise"):
    guarantee: Json[Guarantee]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.0,), "epsilon must be a number of nats above 0"),
        ((-1.0,), "epsilon must be"),
        ((math.inf,), "epsilon must be"),
        ((math.nan,), "epsilon must be"),
        ((True,), "epsilon must be"),
        (("1",), "epsilon must be"),
        ((1.0, -1e-9), "delta must be"),
        ((1.0, 1.0), "delta must be"),
        ((1.0, math.nan), "delta must be"),
        ((1.0, 0.0, Unit.RECORD), "adjacency must be"),
        ((1.0, 0.0, REPLACE, REPLACE), "unit must be"),
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


@pytest.mark.parametrize("mine", RELATIONS)
@pytest.mark.parametrize("other", RELATIONS)
def test_what_is_hidden_covers_itself_and_a_replaced_client_its_records(mine, other):
    implied = (mine, other) == ((REPLACE, Unit.RECORD), (REPLACE, Unit.CLIENT))
    kept = Guarantee(1.0, 0.0, *other)
    assert Guarantee(1.0, 0.0, *mine).covers(kept) == (mine == other or implied)


def test_only_changed_records_leave_their_number_public():
    public = [pair for pair in RELATIONS if Guarantee(1.0, 0.0, *pair).total_is_public]
    assert public == [(REPLACE, Unit.RECORD)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_promise_survives_the_wire(relation):
    promised = Promise(Guarantee(0.1, 1e-9, *relation))
    assert Promise.from_config(promised.to_config()) == promised


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 1),
        ("epsilon", None),
        ("delta", False),
        ("unit", 3),
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("delta", 1.0),
        ("unit", "replace-one"),
        ("adjacency", "record"),
        ("more", 1),
    ],
)
def test_what_crosses_the_wire_is_read_strictly(name, value):
    with pytest.raises(Unreadable):
        Promise.from_config({"guarantee": json.dumps(vars(Guarantee(1.0)) | {name: value})})
