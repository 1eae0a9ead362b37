"""Checks on a real SuperLink with TLS, authenticated SuperNodes and pinned signing keys.

One ``flwr run`` for all of them: on two cores a phase of a secure sum takes some seconds, because
every message starts a process on every node.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flower_deployment import Certificates, Deployment, node_key, wait_for

from flwr_kld import Labels, Reference
from flwr_kld.divergence import skewed_divergence
from flwr_kld.secure_sum import Identity, Roster

pytestmark = pytest.mark.slow

CLIENTS = [f"hospital-{i}" for i in range(4)]
STOPPED, KILLED = CLIENTS[2], CLIENTS[3]
COUNTS = {"bus": 40, "car": 80, "train": 120, "walk": 160}
EACH = sum(COUNTS.values())
APP = Path(__file__).parent / "apps" / "secured"


@dataclass
class Hospitals:
    """Each node's files: what its operator keeps and no app brings."""

    folder: Path

    def __post_init__(self) -> None:
        identities = {name: Identity.generate() for name in CLIENTS}
        self.roster = self.folder / "roster.json"
        public = {name: identity.public for name, identity in identities.items()}
        self.roster.write_text(Roster(public).to_json())
        records = " ".join(name for name, n in COUNTS.items() for _ in range(n))
        for name, identity in identities.items():
            self._file(name, "identity").write_bytes(identity.to_bytes())
            self._file(name, "identity").chmod(0o600)
            self._file(name, "records").write_text(records)

    def config(self, name: str) -> str:
        files = {kind: self._file(name, kind) for kind in ("identity", "records", "trap")}
        values = {"name": name, "roster": self.roster, **files}
        return " ".join(f'{key}="{value}"' for key, value in values.items())

    def trap(self, name: str) -> Path:
        return self._file(name, "trap")

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def hospitals(home: Path) -> Hospitals:
    return Hospitals(home)


@pytest.fixture(scope="module")
def deployment(home: Path) -> Iterator[Deployment]:
    running = Deployment(home, Certificates(home))
    try:
        running.start()
        yield running
    finally:
        running.stop()


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
def story(deployment: Deployment, hospitals: Hospitals, home: Path) -> Story:
    """Run the app once, with a hand in what happens to its nodes."""
    keys = {name: node_key(home, name) for name in (*CLIENTS, "stranger")}
    deployment.register(keys[name][1] for name in CLIENTS)

    def start(name: str, hospital: str) -> subprocess.Popen[bytes]:
        return deployment.add_node(name, hospitals.config(hospital), keys[name][0])

    nodes = {name: start(name, name) for name in CLIENTS}
    control = home / "control"
    control.mkdir()
    run = deployment.start_run(
        shutil.copytree(APP, home / "app"), "--run-config",
        f'clients={len(CLIENTS)} control="{control}" roster="{hospitals.roster}"',
    )  # fmt: skip

    def wait(path: Path) -> None:
        def there() -> bool:
            if run.poll() is not None:
                raise RuntimeError(deployment.log("run"))
            return path.exists()

        wait_for(there, 180, path.name)

    def begin(check: str) -> None:
        (control / f"{check}.go").touch()

    wait(control / "trusted.ready")
    begin("trusted")

    wait(control / "stopped-before.ready")
    deployment.stop_one(nodes[STOPPED])
    begin("stopped-before")

    wait(control / "killed-during.ready")
    nodes[STOPPED] = start(STOPPED, STOPPED)
    wait_for(lambda: "SuperNode ID" in deployment.log(STOPPED), 60, "the stopped node is back")
    trap = hospitals.trap(KILLED)
    trap.touch()
    begin("killed-during")
    wait(trap.with_suffix(".caught"))  # its keys are shared; it was about to mask its records
    deployment.kill_one(nodes[KILLED])
    stranger = start("stranger", CLIENTS[0])  # while the others wait for the killed one
    exit_code = stranger.wait(60)
    listed = deployment.nodes()
    run.wait(180)

    printed = deployment.log("run")
    found = [json.loads(line) for line in re.findall(r"CHECK (\{.*\})", printed)]
    checks = {check["name"]: check for check in found}
    return Story(checks, printed, deployment.log("stranger"), exit_code, listed)


def test_every_check_gave_a_report_and_nothing_raised(story: Story):
    assert list(story.checks) == ["trusted", "stopped-before", "killed-during"], story.printed[
        -5000:
    ]
    assert not [check for check in story.checks.values() if "failed" in check]
    assert "Traceback" not in story.printed


@pytest.mark.parametrize(
    ("name", "trust", "aggregation"),
    [("trusted", "trusted", "plain-sum"), ("killed-during", "distributed", "secure-sum")],
)
def test_each_trust_model_reads_the_truth(story: Story, name, trust, aggregation):
    check = story.checks[name]
    assert (check["trust"], check["aggregation"]) == (trust, aggregation)
    assert check["private"]
    assert check["delivered"] <= check["epsilon"] == 3.0
    reference = Reference.from_counts(Labels(sorted(COUNTS)), [310, 250, 120, 320])
    shares = [COUNTS[label] / EACH for label in sorted(COUNTS)]
    truth = skewed_divergence(reference.probabilities, shares, 0.01)
    assert abs(check["estimate"] - truth) < 6 * check["privacy"] + 0.02


@pytest.mark.parametrize(
    ("name", "survivors", "dropouts"),
    [
        ("trusted", 4, {}),
        ("stopped-before", 3, {"no reply": 1}),
        ("killed-during", 3, {"no reply": 1}),
    ],
)
def test_one_node_fewer_is_survived(story: Story, name, survivors, dropouts):
    """The sum holds exactly the survivors' records; the node that stopped is among them later."""
    check = story.checks[name]
    assert (check["asked"], check["survivors"]) == (4, survivors)
    assert check["records"] == survivors * EACH
    assert check["dropouts"] == dropouts


def test_an_unregistered_node_is_refused(story: Story):
    assert story.exit_code != 0
    assert "Failed to activate SuperNode" in story.stranger
    assert "SuperNode ID" not in story.stranger
    assert len(story.listed) == len(CLIENTS)
