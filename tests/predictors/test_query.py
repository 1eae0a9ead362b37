"""Queries: the whole way from a label to a symbol is private, also over the wire."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from predictors.candidates import random_laws
from scripted import ScriptedBits

from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, SystemBits
from flwr_kld.predictors.designs import DESIGNS
from flwr_kld.predictors.query import Query, named_query

LAWS = random_laws(4, 11)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_every_query_of_every_design_is_private_from_label_to_symbol(design, epsilon):
    bound = exp_below(epsilon)
    for query in DESIGNS[design](LAWS, epsilon).queries:
        rows = [
            [query.channel.weight(int(c), z) for z in range(query.channel.classes)]
            for c in query.class_of
        ]
        assert all(sum(row) == TOTAL for row in rows)
        assert max(Fraction(max(z), min(z)) for z in zip(*rows, strict=True)) <= bound


def test_maps_ask_what_their_names_say():
    p = LAWS.probabilities

    def asks(name):
        return named_query(LAWS, name, 1.0).class_of.tolist()

    assert asks("labels") == list(range(11))
    assert asks("ovr/2") == (p[2] > p.mean(axis=0)).tolist()
    assert asks("pair/3/1") == (p[3] > p[1]).tolist()
    assert asks("mlq") == p.argmax(axis=0).tolist()
    assert len(set(asks("cells/2/0"))) > 2


def test_cells_are_scheffes_sets_between_groups_of_hypotheses():
    laws = random_laws(9, 30)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 9)).reshape(9, -1).T
    every = signs @ (laws.probabilities - laws.mean) > 0
    maps = [named_query(laws, f"cells/1/{number}", 1.0).class_of for number in range(40)]
    assert all((every == one).all(axis=1).any() for one in maps)
    assert len({one.tobytes() for one in maps}) > 30
    both = named_query(laws, "cells/2/3", 1.0).class_of
    assert both.tolist() == (maps[6] + 2 * maps[7]).tolist()


def test_empty_classes_are_not_asked_about():
    laws = random_laws(50, 3)
    query = named_query(laws, "mlq", 1.0)
    assert query.channel.classes == len(set(laws.probabilities.argmax(axis=0).tolist()))


@pytest.mark.parametrize("name", ["nothing", "ovr", "ovr/9", "pair/1", "cells/1", "cells/x/1"])
def test_names_of_no_query_are_refused(name):
    with pytest.raises(ValueError, match=r"named|literal"):
        named_query(LAWS, name, 1.0)


def test_an_answer_depends_on_the_class_only():
    query = named_query(LAWS, "ovr/1", 1.0)
    for number in (0, TOTAL // 3, TOTAL // 2, TOTAL - 1):
        by_class = {}
        for label, c in enumerate(query.class_of.tolist()):
            by_class.setdefault(c, set()).add(query.answer(label, ScriptedBits.of(number)))
        assert all(len(answers) == 1 for answers in by_class.values())


@pytest.mark.parametrize("label", [-1, 11, 10**9])
def test_a_label_outside_is_refused_without_being_named(label):
    with pytest.raises(DomainError) as error:
        named_query(LAWS, "mlq", 1.0).answer(label, SystemBits())
    assert str(label) not in str(error.value)


@pytest.mark.parametrize("name", ["labels", "ovr/0"])
def test_the_wire_carries_map_and_channel(name):
    query = replace(named_query(LAWS, name, 0.7), context="weekend")
    read = Query.from_config(query.to_config(), 11)
    assert read.context == "weekend"
    assert read.class_of.tolist() == query.class_of.tolist()
    assert read.channel.epsilon == 0.7
    for c in range(read.channel.classes):
        for z in range(read.channel.classes):
            assert read.channel.weight(c, z) == query.channel.weight(c, z)


def test_a_query_over_another_domain_or_with_stray_classes_is_refused():
    config = named_query(LAWS, "mlq", 1.0).to_config()
    for labels in (10, 12):
        with pytest.raises(QueryRefused, match="domain"):
            Query.from_config(config, labels)
    with pytest.raises(QueryRefused, match="domain"):
        Query.from_config(config | {"classes": 2}, 11)
