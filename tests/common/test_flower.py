"""A Flower that nobody tested is named before anybody is asked."""

from importlib.metadata import version

import pytest
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.cli.doctor import versions
from flwr_kld.clients import answer_drift_queries
from flwr_kld.common import flower
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(flower, "version", lambda name: "1.142.0")
    return "1.142.0"


def test_the_flower_of_these_tests_is_known():
    assert flower.untested_flower() is None, version("flwr")


def test_a_check_names_an_unknown_flower_before_it_asks(unknown, caplog):
    labels, app = Labels(["cat", "dog"]), ClientApp()
    said = []

    def records(context: object) -> list[str]:
        said.append(any(unknown in record.getMessage() for record in caplog.records))
        return ["cat", "dog"] * 20

    answer_drift_queries(app, records, labels)
    monitor = KLDrift(Reference.from_counts(labels, [100, 100]), Trusted(epsilon=1.0))
    monitor.check(InProcessGrid(app, nodes=2))
    assert said == [True, True]


def test_doctor_warns_of_an_unknown_flower(unknown):
    found = versions()
    assert found.state == "warning"
    assert unknown in found.words
