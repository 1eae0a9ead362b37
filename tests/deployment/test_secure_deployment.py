"""Checks in each trust model on a real SuperLink with TLS, authenticated SuperNodes and a guard.

One ``flwr run`` for all of them: on two cores an exchange of messages takes some seconds, because
every message starts a process on every node.
"""

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flower_deployment import Certificates, Deployment, deployed, node_key, wait_for
from patience import HANGS

from flwr_kld import Labels, Reference
from flwr_kld.clients import AggregatorKey
from flwr_kld.guard import verify
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.secure_sums import Identity, Roster

pytestmark = pytest.mark.slow

CLIENTS = [f"hospital-{i}" for i in range(5)]
GUARDED, STOPPED, KILLED = CLIENTS[0], CLIENTS[3], CLIENTS[4]
AGGREGATOR = "aggregator"
COUNTS = {"bus": 40, "car": 80, "train": 120, "walk": 160}
EACH = sum(COUNTS.values())
REFERENCE = Reference.from_counts(Labels(sorted(COUNTS)), [310, 250, 120, 320])
APP = Path(__file__).parent / "apps" / "secured"

GUARD = f"""
receipts = "receipts.db"
key = "{GUARDED}.identity"  # the one that it signs with in secure sums
[allow]
trust = ["trusted", "trusted-aggregator", "distributed"]
domains = ["{REFERENCE.domain.fingerprint}"]
plans = ["{REFERENCE.fingerprint}"]
[check]
max_epsilon = 3.0
max_delta = 1e-6
min_asked = 4
[period]
days = 30
max_epsilon = 6.0
max_delta = 1e-5
"""


@dataclass
class Operators:
    """Each node's files: what its operator keeps and no app brings."""

    folder: Path

    def __post_init__(self) -> None:
        identities = {name: Identity.generate() for name in CLIENTS}
        self.public = {name: identity.public for name, identity in identities.items()}
        self.roster = self.folder / "roster.json"
        self.roster.write_text(Roster(self.public).to_json())
        records = " ".join(name for name, n in COUNTS.items() for _ in range(n))
        for name, identity in identities.items():
            self.file(name, "identity").write_bytes(identity.to_bytes())
            self.file(name, "identity").chmod(0o600)
            self.file(name, "records").write_text(records)
        self.file(GUARDED, "guard").write_text(GUARD)
        key = AggregatorKey.generate()
        key.save(self.file(AGGREGATOR, "sealing"))
        self.pinned = f"AGGREGATOR = {key.public!r}\n"

    def config(self, name: str) -> str:
        """A hospital's node config."""
        values = {
            "drift-identity": self.file(name, "identity"),
            "drift-roster": self.roster,
            "records": self.file(name, "records"),
            "trap": self.file(name, "trap"),
        }
        if name == GUARDED:
            values["drift-guard"] = self.file(name, "guard")
        return _config(values)

    def aggregator_config(self) -> str:
        return _config(
            {
                "drift-role": "aggregator",
                "drift-key": self.file(AGGREGATOR, "sealing"),
                "drift-memory": self.file(AGGREGATOR, "memory"),
            }
        )

    def file(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"


def _config(values: dict[str, object]) -> str:
    return " ".join(f'{key}="{value}"' for key, value in values.items())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def operators(home: Path) -> Operators:
    return Operators(home)


@pytest.fixture(scope="module")
def deployment(home: Path) -> Iterator[Deployment]:
    with deployed(home, Certificates(home)) as running:
        yield running


@dataclass
class Story:
    """What came of the run."""

    checks: dict[str, dict]
    printed: str
    stranger: str
    """Log of the SuperNode that nobody registered."""
    exit_code: int
    listed: list[dict[str, str]]
    """The SuperLink's nodes after the stranger knocked."""


@pytest.fixture(scope="module")
def story(deployment: Deployment, operators: Operators, home: Path) -> Story:
    """Run the app once, with a hand in what happens to its nodes."""
    keys = {name: node_key(home, name) for name in (*CLIENTS, AGGREGATOR, "stranger")}
    deployment.register(keys[name][1] for name in (*CLIENTS, AGGREGATOR))

    def start(name: str, config: str) -> subprocess.Popen[bytes]:
        return deployment.add_node(name, config, keys[name][0])

    nodes = {name: start(name, operators.config(name)) for name in CLIENTS}
    control = home / "control"
    control.mkdir()
    app = shutil.copytree(APP, home / "app")
    (app / "secured" / "pinned.py").write_text(operators.pinned)
    run = deployment.start_run(
        app, "--run-config",
        f'clients={len(CLIENTS)} control="{control}" roster="{operators.roster}"',
    )  # fmt: skip

    def wait(path: Path) -> None:
        def there() -> bool:
            if run.poll() is not None:
                raise RuntimeError(deployment.log("run"))
            return path.exists()

        wait_for(there, HANGS, path.name)

    def ready(check: str) -> None:
        wait(control / f"{check}.ready")

    def begin(check: str) -> None:
        (control / f"{check}.go").touch()

    def connected(name: str) -> None:
        wait_for(lambda: "SuperNode ID" in deployment.log(name), HANGS, f"{name} is connected")

    ready("trusted")
    start(AGGREGATOR, operators.aggregator_config())
    begin("trusted")

    ready("aggregated")
    connected(AGGREGATOR)
    begin("aggregated")

    ready("distributed")
    deployment.stop_one(nodes[STOPPED])
    trap = operators.file(KILLED, "trap")
    trap.touch()
    begin("distributed")
    wait(trap.with_suffix(".caught"))  # its keys are shared; it was about to mask its records
    deployment.kill_one(nodes[KILLED])
    stranger = start("stranger", operators.config(CLIENTS[0]))  # while others wait for the killed
    exit_code = stranger.wait(60)
    listed = deployment.nodes()
    run.wait(180)

    printed = deployment.log("run")
    found = [json.loads(line) for line in re.findall(r"CHECK (\{.*\})", printed)]
    checks = {check["name"]: check for check in found}
    return Story(checks, printed, deployment.log("stranger"), exit_code, listed)


def test_every_check_gave_a_report_and_nothing_raised(story: Story):
    assert list(story.checks) == ["trusted", "aggregated", "distributed"], story.printed[-5000:]
    assert not [check for check in story.checks.values() if "failed" in check]
    assert "Traceback" not in story.printed


@pytest.mark.parametrize(
    ("name", "trust", "aggregation", "epsilon"),
    [
        ("trusted", "trusted", "plain-sum", 4.0),
        ("aggregated", "trusted-aggregator", "sealed-sum", 3.0),
        ("distributed", "distributed", "secure-sum", 3.0),
    ],
)
def test_each_trust_model_reads_the_truth(story: Story, name, trust, aggregation, epsilon):
    check = story.checks[name]
    protection, reading = check["protection"], reading_of(check)
    assert (protection["trust"], protection["aggregation"]) == (trust, aggregation)
    assert protection["private"]
    assert check["cost"]["epsilon"] <= check["guarantee"]["epsilon"] == epsilon
    shares = [*(COUNTS[label] / EACH for label in sorted(COUNTS)), 0.0, 0.0]  # none other, missing
    truth = skewed_divergence(REFERENCE.probabilities, shares, 0.01)
    assert abs(reading["estimate"] - truth) < 6 * reading["error"]["privacy"] + 0.02


def reading_of(check: dict[str, Any]) -> dict[str, Any]:
    """What the numbers say of the only column."""
    (column,) = check["columns"].values()
    return column["reading"]


def cohort_of(check: dict[str, Any]) -> tuple[int, int, float]:
    """Clients that were asked, those that answered, and their records."""
    cohort = check["cohort"]
    return cohort["asked"], cohort["survivors"], reading_of(check)["records"]


REFUSED = "refused: epsilon 4; this client's limit for a check is 3"
SILENT = {"no reply", "client error (Flower code 3)"}
"""Flower itself says code 3 for a killed node, if it is asked just after the message's time."""


def test_a_refusal_of_the_guard_is_survived_and_said(story: Story):
    check = story.checks["trusted"]
    assert cohort_of(check) == (5, 4, 4 * EACH)
    assert check["cohort"]["dropouts"] == {REFUSED: 1}


def test_the_aggregator_hears_all_hospitals_and_is_none(story: Story):
    check = story.checks["aggregated"]
    assert cohort_of(check) == (5, 5, 5 * EACH)
    assert check["cohort"]["dropouts"] == {}


def test_a_secure_sum_survives_a_stopped_and_a_killed_node(story: Story):
    """The sum holds exactly the survivors' records."""
    check = story.checks["distributed"]
    assert cohort_of(check) == (5, 3, 3 * EACH)
    dropouts = check["cohort"]["dropouts"]
    assert set(dropouts) <= SILENT
    assert sum(dropouts.values()) == 2


def test_the_guard_leaves_a_signed_receipt_of_each_check_that_it_let_through(
    story: Story, operators: Operators
):
    audit = verify(operators.folder / "receipts.db", operators.public[GUARDED])
    answered = [check for name, check in story.checks.items() if name != "trusted"]
    assert [(receipt.check, receipt.trust) for receipt in audit.receipts] == [
        (check["check"], check["protection"]["trust"]) for check in answered
    ]
    assert sum(receipt.epsilon for receipt in audit.receipts) == 6 * 10**9  # the whole budget


def test_the_aggregator_remembers_the_one_check_that_it_published(
    story: Story, operators: Operators
):
    with closing(sqlite3.connect(operators.file(AGGREGATOR, "memory"))) as memory:
        ((claimed,),) = memory.execute("SELECT answer FROM claims").fetchall()
    assert story.checks["aggregated"]["check"] in claimed.split()


def test_an_unregistered_node_is_refused(story: Story):
    assert story.exit_code != 0
    assert "Failed to activate SuperNode" in story.stranger
    assert "SuperNode ID" not in story.stranger
    assert len(story.listed) == len(CLIENTS) + 1
