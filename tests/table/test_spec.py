"""Specs and fingerprints: what server and client compare."""

import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain, domain_from_spec
from flwr_kld.table.binned import Binned
from flwr_kld.table.block_patterns import BlockPatterns
from flwr_kld.table.categories import Categories
from flwr_kld.table.codes import Codes
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times

DOMAINS: list[Domain] = [
    Labels(["a", "b"]),
    Labels(["b", "a"]),
    Labels(["a", "b", "é"]),
    Labels([1, 2]),
    Labels(["1", "2"]),
    Binned([1, 2]),
    Binned([1, 2.5]),
    Binned([1, 2], [0, 1.5, 7]),
    Categories({"x": ["a", "b"], "y": [1, 2]}),
    Categories({"y": [1, 2], "x": ["a", "b"]}),
    Categories({"x": Binned([1]), "y": [1, 2]}),
    Categories({"x": ["a", "b"]}),
    Codes(["a", "b"]),
    Codes(["b", "a"]),
    Codes(["a", "b"], buckets=3),
    Codes(["a", "b"], prefix=3),
    Codes([], buckets=3),
    Table({"x": ["a", "b"]}),
    Table({"x": ["a", "b"]}, sources={"x": "y"}),
    BlockPatterns(),
    BlockPatterns(0.25),
    BlockPatterns(side=8),
    BlockPatterns(pixels="digits", side=8),
    BlockPatterns(faint=0.02),
    BlockPatterns(crop=True),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_domain_survives_json_and_pickle(domain: Domain) -> None:
    for twin in (
        domain_from_spec(json.loads(json.dumps(domain.spec()))),
        pickle.loads(pickle.dumps(domain)),  # noqa: S301
    ):
        assert type(twin) is type(domain)
        assert twin.fingerprint == domain.fingerprint
        assert twin == domain
        assert hash(twin) == hash(domain)
        assert twin.spec() == domain.spec()


def test_domains_that_differ_in_anything_even_order_have_different_fingerprints() -> None:
    assert len({domain.fingerprint for domain in DOMAINS}) == len(DOMAINS)
    assert len(set(DOMAINS)) == len(DOMAINS)


def test_the_fingerprint_is_fixed_for_ever() -> None:
    canonical = b'{"kind":"labels","names":["a","b"],"version":1}'
    assert Labels(["a", "b"]).fingerprint == hashlib.sha256(canonical).hexdigest()
    assert (
        BlockPatterns().fingerprint
        == hashlib.sha256(
            b'{"crop":false,"faint":0.0,"kind":"block_patterns","pixels":"uint8",'
            b'"side":28,"threshold":0.0,"version":1}'
        ).hexdigest()
    )


def test_equality_is_by_spec() -> None:
    assert BlockPatterns(0) == BlockPatterns(0.0)
    assert Binned((1, 2)) == Binned([1.0, 2.0])
    assert Labels(["a"]) != ["a"]


def test_a_domain_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        BlockPatterns().side = 8  # type: ignore[misc]


LABELS = Labels(["a"]).spec()
OLD = LABELS | {"version": 2}
NESTED = Categories({"x": ["a"]}).spec()


CODES = Codes(["a"]).spec()
TABLE = Table({"x": ["a"]}).spec()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "'kind'"),
        ([], "'kind'"),
        ({}, "'kind'"),
        ({"kind": ["labels"]}, "'kind'"),
        ({"kind": "images", "version": 1}, "kind"),
        ({"kind": "labels", "names": ["a"]}, "kind"),
        ({"kind": "labels", "version": 3, "names": ["a"]}, "kind"),
        ({"kind": "labels", "version": 2, "names": ["a"]}, "kind"),
        ({"kind": "labels", "version": True, "names": ["a"]}, "kind"),
        ({"kind": "labels", "version": 1.0, "names": ["a"]}, "kind"),
        ({"kind": "labels", "version": 1}, "names"),
        ({"kind": "labels", "version": 1, "names": ["a"], "more": 1}, "more"),
        ({"kind": "labels", "version": 1, "names": "ab"}, "names"),
        ({"kind": "labels", "version": 1, "names": ["a", 1]}, "names"),
        ({"kind": "labels", "version": 1, "names": [True]}, "names"),
        ({"kind": "labels", "version": 1, "names": [1.0]}, "names"),
        ({"kind": "labels", "version": 1, "names": [None]}, "names"),
        ({"kind": "labels", "version": 1, "names": [2**63]}, "signed"),
        ({"kind": "labels", "version": 1, "names": ["a", "a"]}, "distinct"),
        ({"kind": "categories", "version": 1}, "categories"),
        ({"kind": "categories", "version": 1, "features": [["x"]]}, "categories"),
        ({"kind": "categories", "version": 1, "features": {"x": LABELS}}, "categories|domain"),
        ({"kind": "categories", "version": 1, "features": [["x", LABELS, 1]]}, "categories"),
        ({"kind": "categories", "version": 1, "features": [[1, LABELS]]}, "categories|domain"),
        ({"kind": "categories", "version": 1, "features": [["x", [LABELS]]]}, "categories|domain"),
        ({"kind": "categories", "version": 1, "features": [["x", {}]]}, "'kind'"),
        ({"kind": "categories", "version": 1, "features": [["x", OLD]]}, "kind"),
        ({"kind": "categories", "version": 1, "features": [["x", NESTED]]}, "categories"),
        ({"kind": "categories", "version": 1, "features": []}, "least"),
        ({"kind": "codes", "version": 1, "names": ["a"]}, "form"),
        (CODES | {"names": ["a", "a"]}, "different"),
        (CODES | {"names": [1]}, "different"),
        (CODES | {"names": "ab"}, "must be a list"),
        (CODES | {"names": []}, "names"),
        (CODES | {"names": None}, "codes"),
        (CODES | {"prefix": 0}, "prefix"),
        (CODES | {"prefix": 2.0}, "prefix"),
        (CODES | {"names": ["abc"], "prefix": 2}, "prefixes"),
        (CODES | {"buckets": -1}, "buckets"),
        (CODES | {"buckets": True}, "buckets"),
        (CODES | {"x": 1}, "x"),
        (TABLE | {"sources": []}, "sources"),
        (TABLE | {"sources": {"x": 1}}, "sources"),
        (TABLE | {"sources": {"z": "y"}}, "'z'"),
        (TABLE | {"sources": {"x": "x"}}, "form"),
        ({"kind": "binned", "version": 1, "edges": {"a": 1}}, "edge"),
        ({"kind": "binned", "version": 1, "edges": ["1"]}, "edge"),
        ({"kind": "binned", "version": 1, "edges": [False, True]}, "edge"),
        ({"kind": "binned", "version": 1, "edges": [None]}, "edge"),
        ({"kind": "binned", "version": 1, "edges": [float("nan")]}, "edges"),
        ({"kind": "binned", "version": 1, "edges": [2, 1]}, "increasing"),
        ({"kind": "binned", "version": 1, "edges": [1], "means": None}, "form"),
        ({"kind": "binned", "version": 1, "edges": [1], "means": [0]}, "one for each bin"),
        ({"kind": "binned", "version": 1, "edges": [1], "means": ["0", "2"]}, "one for each"),
        ({"kind": "binned", "version": 1, "edges": [1], "means": [2, 2]}, "lies"),
        ({"kind": "binned", "version": 1, "edges": [1], "means": [0, float("inf")]}, "in its bin"),
        ({"kind": "block_patterns", "version": 1, "threshold": 0.0}, "form"),
    ],
)
def test_a_bad_spec_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        domain_from_spec(spec)


def test_whole_numbers_may_stand_for_real_ones_in_a_spec() -> None:
    assert domain_from_spec({"kind": "binned", "version": 1, "edges": [0, 10]}) == Binned([0, 10])


def test_a_feature_named_twice_is_refused() -> None:
    spec = Categories({"x": ["a"]}).spec()
    spec["features"] *= 2
    with pytest.raises(DomainError, match="form"):
        domain_from_spec(spec)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Labels({"bus", "car"}),
        lambda: Labels(frozenset({"bus"})),
        lambda: Codes({"bus", "car"}),
        lambda: Times({"2024-01-01", "2025-01-01"}),
        lambda: Table({"a": ["x"], "b": ["y"]}, {("a", "b")}),
        lambda: Dialect(missing={"NA", "?"}),
        lambda: Dialect(sentinels={"a": {"-9", "-99"}}),
    ],
    ids=range(7),
)
def test_no_domain_is_made_of_a_set(made: Callable[[], object]) -> None:
    """Its order, and so the fingerprint, is another one in each process."""
    with pytest.raises(DomainError, match="list"):
        made()
