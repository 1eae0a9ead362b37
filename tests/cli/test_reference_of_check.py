"""``reference of-check``: what a check in the ledger released, for the next quarter's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.ledger import Ledger
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

WAYS = Labels(["bus", "car", "train"])
PUBLIC = Reference.from_counts(WAYS, [500, 300, 200])


@pytest.fixture
def checked(tmp_path, url):
    """A ledger with a check of this key, and the file of what it compared with."""
    app = ClientApp()
    trips = np.repeat(WAYS.names, [20, 30, 50])
    answer_drift_queries(app, lambda context: trips, WAYS)
    monitor = KLDrift(PUBLIC, Trusted(0.5), threshold=0.05, ledger=url)
    report = monitor.check(InProcessGrid(app, 5), key="2026-q3")
    PUBLIC.save(tmp_path / "public.json")
    return report


@pytest.fixture
def build(cli, tmp_path, url):
    def run(*options: object, key: str = "2026-q3"):
        return cli(
            "reference", "of-check", tmp_path / "q3.json", "--key", key,
            "--compared-with", tmp_path / "public.json", "--ledger", url, *options,
        )  # fmt: skip

    return run


def test_it_is_the_checks_own_and_nothing_is_spent(checked, build, tmp_path, url):
    spent = Ledger(url).spent()
    done = build("--json")
    assert done.exit_code == 0, done.output
    told, made = json.loads(done.stdout), Reference.load(tmp_path / "q3.json")
    assert made.fingerprint == told["reference"] == checked.as_reference(PUBLIC).fingerprint
    assert told["records"] == made.records <= checked.reading.records
    assert made.noise > 0
    assert "too few for the threshold" in " ".join(done.stderr.split())
    assert Ledger(url).spent() == spent


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key": "2026-q2"}, "the ledger has no check '2026-q2'"),
        ({"population": "fleet"}, "no check '2026-q3' of population 'fleet'"),
    ],
)
def test_mistakes(checked, build, tmp_path, options, why):
    key = options.pop("key", "2026-q3")
    done = build(*(x for name, value in options.items() for x in (f"--{name}", value)), key=key)
    assert done.exit_code == 4
    assert why in " ".join(done.stderr.split())
    assert not (tmp_path / "q3.json").exists()


def test_another_reference_than_the_check_had(checked, build, tmp_path):
    Reference.from_counts(WAYS, [1, 1, 1]).save(tmp_path / "public.json")
    done = build()
    assert done.exit_code == 4
    assert "compared with the reference" in " ".join(done.stderr.split())
