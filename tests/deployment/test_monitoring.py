"""A reference, checks and a predictor on one ledger, over a SuperLink that is started anew.

Three runs of one app, as a scheduler would start them: what a run leaves is in the ledger's file.
The first is that of ``flwr-kld describe --reference``.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flower_deployment import BIN, Deployment, deployed
from patience import HANGS

from flwr_kld import Reference
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.ledger import Budget, Ledger

pytestmark = pytest.mark.slow

NODES, LIARS = 3, 1
APP = Path(__file__).parent / "apps" / "monitored"
USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
"""What each node holds, until its data move."""
BUDGET = Budget(10.0, 1e-6, window_days=30, composition="sum")  # what is spent simply adds up
JULY, AUGUST = "check:july learn", "check:july check:august learn"
"""The runs' steps; by August the nodes' data have moved."""


@dataclass
class Story:
    """What came of the runs."""

    made: dict
    """What the command says of the reference that clients made in June."""
    again: dict
    """What it says in August."""
    references: tuple[Path, Path]
    """The files that it wrote, in June and in August."""
    steps: list[dict]
    """All later steps in order."""

    @property
    def reference(self) -> Reference:
        """The one that is checked against."""
        return Reference.load(self.references[0])

    def of(self, name: str) -> list[dict]:
        """All steps of one name."""
        return [step for step in self.steps if step["step"] == name]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("monitored")


@pytest.fixture(scope="module")
def ledger(home: Path) -> Ledger:
    """The operator's view of the file that every run opens for itself."""
    made = Ledger(f"sqlite:///{home}/drift.db")
    made.set_budget(BUDGET)
    return made


@pytest.fixture(scope="module")
def deployment(home: Path) -> Iterator[Deployment]:
    with deployed(home) as running:
        for i in range(NODES):
            running.add_node(f"node{i}", f"lies={str(i < LIARS).lower()}")
        yield running


@pytest.fixture(scope="module")
def story(deployment: Deployment, ledger: Ledger, home: Path) -> Story:
    reference, copy = home / "reference.json", home / "copy.json"
    url = f"sqlite:///{home}/drift.db"

    def build(out: Path) -> dict:
        done = subprocess.run(
            [
                BIN / "flwr-kld", "describe", APP, "real", "--reference", out, "--key", "june",
                "--ledger", url, "--json",
                "--run-config", f'nodes={NODES} ledger="{url}"',
            ],
            env=deployment.environment, capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        return json.loads(done.stdout)

    def run(steps: str, moved: str = "false") -> list[dict]:
        printed = deployment.run(
            APP, "--run-config",
            f'nodes={NODES} ledger="{url}" reference="{reference}" '
            f'steps="{steps}" moved={moved}',
            timeout=HANGS,
        )  # fmt: skip
        found = [json.loads(line) for line in re.findall(r"STEP (\{.*\})", printed)]
        assert [step["step"] for step in found] == steps.split(), printed[-5000:]
        assert "Traceback" not in printed
        return found

    made, steps = build(reference), run(JULY)
    deployment.stop_superlink()
    deployment.start()
    steps += run(AUGUST, moved="true")
    return Story(made, build(copy), (reference, copy), steps)


def test_history_is_continuous(story: Story, ledger: Ledger):
    kept = list(ledger.history())
    assert [entry.key for entry in kept] == ["june", "july", "predictor/1", "august", "predictor/2"]
    assert {entry.state for entry in kept} == {"settled"}
    taken = [story.made["report"]]
    taken += [step for step in story.steps if "refused" not in step]
    for entry, step in zip(kept, taken, strict=True):
        assert entry.report.items() <= step.items()


def test_the_budget_is_continuous(story: Story, ledger: Ledger):
    """Each step spends what its report says, of what the one before has left."""
    total = story.made["report"]["cost"]["epsilon"]
    for step in story.steps:
        total += 0 if "refused" in step else step["cost"]["epsilon"]
        assert step["spent"] == pytest.approx(total, abs=1e-7), step["step"]
        if "cost" in step:
            assert step["cost"]["left"] == pytest.approx(BUDGET.epsilon - total, abs=1e-7)
    assert ledger.spent().epsilon == story.steps[-1]["spent"]


def test_a_key_runs_once(story: Story):
    _, again = story.of("check:july")
    assert again["refused"] == "AlreadyChecked"


def test_the_predictor_goes_on_where_it_was(story: Story):
    first, second = story.of("learn")
    assert (first["round"], second["round"]) == (1, 2)
    honest = NODES - LIARS
    assert (first["reading"]["reports"], second["reading"]["reports"]) == (honest, 2 * honest)
    assert len(set(first["before"].values())) == 1  # it knew nothing
    assert second["before"] == first["reading"]["weights"] != second["reading"]["weights"]


def test_a_lying_client_is_rejected_and_counted(story: Story):
    for step in story.of("learn"):
        cohort = step["cohort"]
        assert (cohort["asked"], cohort["survivors"]) == (NODES, NODES - LIARS)
        assert cohort["dropouts"] == {"impossible report": LIARS}


def test_clients_make_a_reference_over_a_secure_sum(story: Story):
    made = story.made["report"]
    how = made["protection"]
    assert (how["trust"], how["aggregation"]) == ("distributed", "secure-sum")
    assert made["cohort"]["survivors"] == NODES
    assert made["records"] == NODES * sum(USUAL.values())
    assert 0 < made["cost"]["epsilon"] < made["guarantee"]["epsilon"]  # a survivor to spare
    assert (story.made["ran"], made["reference"]) == (True, story.reference.fingerprint)
    shares = [n / sum(USUAL.values()) for _, n in sorted(USUAL.items())]
    whole = [*shares, 0.0, 0.0]  # nothing is other or missing
    assert skewed_divergence(story.reference.probabilities, whole, 0.0) < 1e-3


def test_a_reference_is_paid_for_once(story: Story):
    """In August, after the clients' data have moved, the command finds what they made in June."""
    assert story.again["ran"] is False
    assert story.again["report"] == story.made["report"]
    june, august = (file.read_bytes() for file in story.references)
    assert june == august


def reading_of(check):
    """What the numbers say of the only column."""
    (column,) = check["columns"].values()
    return column["reading"]


def test_no_false_alarm_while_nothing_moves(story: Story):
    july, _ = story.of("check:july")
    assert july["protection"]["private"]
    assert july["cohort"]["survivors"] == NODES
    assert july["compared"]["reference"] == story.reference.fingerprint
    assert reading_of(july)["estimate"] < 0.01
    assert july["verdict"]["outcome"] == "no drift"


def test_a_move_is_drift(story: Story):
    (august,) = story.of("check:august")
    assert august["compared"]["reference"] == story.reference.fingerprint
    assert reading_of(august)["estimate"] > 0.4  # 0.48 in truth
    assert august["verdict"]["outcome"] == "drift"
    assert august["verdict"]["lower_bound"] > august["verdict"]["threshold"]
