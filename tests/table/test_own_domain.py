"""A domain of somebody's own is stored and travels as any other does."""

import json
import subprocess
import sys
from types import ModuleType

import pytest
from flwr.clientapp import ClientApp
from recipes import recipe_text

from flwr_kld import Categories, Domain, Labels, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.common.errors import DomainError
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.report.stored_reference import stored_reference
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Statistics, Trusted
from flwr_kld.table.base import domain_from_spec


@pytest.fixture(scope="module")
def remainders():
    app = ModuleType("own_app")
    sys.modules["own_app"] = app
    exec(recipe_text("remainders.py"), vars(app))
    yield app.Remainders
    del sys.modules["own_app"]


def test_it_is_saved_and_loaded(remainders, tmp_path):
    reference = Reference.from_samples(remainders(3), [0, 1, 1, 2, None])
    reference.save(tmp_path / "reference.json")
    loaded = Reference.load(tmp_path / "reference.json")
    assert type(loaded.domain) is remainders
    assert loaded.fingerprint == reference.fingerprint


def test_it_is_a_feature_of_a_table_and_of_categories(remainders):
    for joining in (Table, Categories):
        domain = joining({"digit": remainders(10), "hand": ["left", "right"]})
        assert domain_from_spec(json.loads(json.dumps(domain.spec()))) == domain


def test_clients_are_checked_against_it_and_make_a_reference_of_it(remainders, tmp_path):
    domain, app = remainders(3), ClientApp()
    answer_drift_queries(app, lambda context: list(range(60)), domain)
    grid = InProcessGrid(app, 30)
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(epsilon=5.0, delta=1e-6, window_days=30))
    trust = Trusted(epsilon=1.0)
    report = Statistics(domain, trust, ledger=ledger).ask(grid, key="first")
    made = report.as_reference(domain)
    assert stored_reference(ledger, "first").fingerprint == made.fingerprint
    report = KLDrift(made, trust, threshold=0.1, ledger=ledger).check(grid)
    assert report.outcome is not None


def test_a_process_that_does_not_know_it_says_what_to_import(remainders, tmp_path):
    Reference.from_samples(remainders(3), [0, 1]).save(tmp_path / "r.json")
    code = f"from flwr_kld import Reference; Reference.load({str(tmp_path / 'r.json')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "import the module of a domain of your own" in done.stderr


@pytest.mark.parametrize("fields", [{}, {"modulus": 0}, {"modulus": "3"}, {"modulus": 3, "x": 1}])
def test_a_spec_that_its_constructor_refuses_is_a_domain_error(remainders, fields):
    with pytest.raises(DomainError, match="remainders"):
        domain_from_spec({"kind": "remainders", "version": 1, **fields})


def test_no_kind_has_two_classes(remainders):
    for kind in ("remainders", "times"):  # one's own, and one that may not be imported yet
        with pytest.raises(ValueError, match=kind):
            type("Other", (Domain,), {"kind": kind})
    assert domain_from_spec(Labels(["a"]).spec()) == Labels(["a"])


def test_a_class_that_is_defined_anew_takes_the_place_of_itself(remainders):
    again = type("Remainders", (remainders,), {"kind": "remainders", "__module__": "own_app"})
    assert type(domain_from_spec(again(3).spec())) is again


_EACH = """
import os, sys
from flwr_kld.table.base import domain_from_spec

for spec in eval(sys.argv[1]):
    if os.fork():  # a process each, which has imported no kind before
        os.wait()
    else:
        print(domain_from_spec(spec).size, flush=True)
        os._exit(0)
"""


def test_every_kind_of_the_package_is_read_by_a_process_that_has_not_imported_it():
    specs = [
        {"kind": "labels", "version": 1, "names": ["a"]},
        {"kind": "binned", "version": 1, "edges": [1.0]},
        {"kind": "times", "version": 1, "by": "hour"},
        {"kind": "codes", "version": 1, "names": ["80"], "buckets": 3, "prefix": 2},
        {
            "kind": "block_patterns", "version": 1, "threshold": 0.0,
            "pixels": "uint8", "side": 28, "faint": 0.0, "crop": False,
        },
    ]  # fmt: skip
    pairs = [[str(number), spec] for number, spec in enumerate(specs)]
    specs.append({"kind": "categories", "version": 1, "features": pairs[:2]})
    specs.append(
        {
            "kind": "table",
            "version": 1,
            "features": pairs,
            "interactions": [],
            "by": None,
            "dialect": {},
            "sources": {},
        }
    )
    done = subprocess.run(
        [sys.executable, "-c", _EACH, repr(specs)], capture_output=True, text=True
    )
    assert [int(size) for size in done.stdout.split()] == [domain_from_spec(s).size for s in specs]


@pytest.mark.parametrize("joining", ["categories", "table"])
def test_a_spec_that_nests_for_ever_is_refused(joining):
    spec = Labels(["a"]).spec()
    for _ in range(100_000):
        spec = {"kind": joining, "version": 1, "features": [["x", spec]]}
    with pytest.raises(DomainError, match="feature"):
        domain_from_spec(spec)
    while "features" in spec:  # as deep as it is, Python could not take it apart by itself
        spec = spec["features"].pop()[1]
