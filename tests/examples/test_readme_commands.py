"""What a newcomer types: each example's README, command by command, on Ray.

The app for Flower's hub runs in test_wheel_alone.py.
"""

import re
import subprocess
from pathlib import Path

import pytest
from patience import HANGS
from recipes import ROOT, run_command

from flwr_kld.simulations.local_superlink import local_superlink

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("table-beside-training", r"after round 10: (no drift|inconclusive)\n"),
        ("model-monitoring", r"  label: drift, 0\.1\d+ ± "),
        (
            "images-by-writer",
            r"(?s)^(OK|No alarm|Inconclusive)[:,] .*of\s400\sof\s400\sdrawn\sclients",
        ),
        ("simulation-notebook", r"(?s)^ALARM: .*of\s10\sof\s10\sclients"),
    ],
    ids=["table", "model", "images", "notebook"],
)
def test_the_command_does_what_the_readme_says(name: str, said: str, tmp_path: Path):
    with local_superlink(tmp_path / "flower.log") as superlink:
        done = subprocess.run(
            ["sh", "-c", run_command(name)], env=superlink.environment, cwd=ROOT,
            capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip
    assert "Traceback" not in done.stdout, done.stdout[-5000:]
    assert re.search(said, done.stdout, re.MULTILINE), done.stdout[-5000:]
