"""``flwr-kld doctor`` on a real SuperLink: two SuperNodes, one of which has another flwr-kld."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from flower_deployment import Deployment, deployed, wait_for
from patience import HANGS
from typer.testing import CliRunner

from flwr_kld.cli.app import app as flwr_kld
from flwr_kld.ledger import Ledger
from flwr_kld.trust.terms import VERSION

pytestmark = pytest.mark.slow


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """What a node sees of another flwr-kld: its version, and that of its messages."""
    messages = tmp_path / "older" / "flwr_kld" / "trust"
    messages.mkdir(parents=True)
    (messages.parent / "__init__.py").touch()
    (messages / "terms.py").write_text(f"VERSION = {VERSION + 1}\n")
    about = tmp_path / "older" / "flwr_kld-0.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flwr-kld\nVersion: 0.9\n")
    return tmp_path / "older"


@pytest.fixture
def deployment(tmp_path: Path, older: Path) -> Iterator[Deployment]:
    (tmp_path / "home").mkdir()
    with deployed(tmp_path / "home") as running:
        running.add_node("same", "x=1")
        running.environment["PYTHONPATH"] = str(older)
        running.add_node("older", "x=1")
        yield running


def test_a_node_of_another_version_is_found_and_nothing_is_spent(
    deployment: Deployment, tmp_path: Path, environment
):
    for name in ("FLWR_HOME", "PATH"):
        environment[name] = deployment.environment[name]
    environment.pop("FLWR_KLD_LEDGER", None)
    (tmp_path / "sample.csv").write_text("\n".join(["age", *map(str, range(20, 80))]))

    def typed(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(flwr_kld, [str(word) for word in words])
        return done.exit_code, done.output

    assert typed("init", tmp_path / "sample.csv", "--out", tmp_path / "app")[0] == 0
    online = lambda: [node["status"] for node in deployment.nodes()]  # noqa: E731
    wait_for(lambda: online() == ["online"] * 2, HANGS, "both nodes are there")
    code, said = typed("doctor", tmp_path / "app", "real")
    assert code == 4, said
    assert re.search(
        rf"ok +server: flwr-kld {re.escape(version('flwr-kld'))}, messages {VERSION}", said
    ), said
    assert re.search(rf"ok +nodes: 1 of 2 \(\d+\): flwr-kld \S+, messages {VERSION}, ", said), said
    assert re.search(
        rf"FAIL nodes: 1 of 2 \(\d+\): flwr-kld 0\.9, messages {VERSION + 1}, Flower \S+; the "
        rf"server's messages are {VERSION}: checks would leave them out\n +next: install", said
    ), said  # fmt: skip
    assert Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").spent().epsilon == 0
