"""``make fuzz-noise`` counts the tests that fail, and never takes tests that did not run for tests
that hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("fresh_noise.py")

TESTS = """
import pathlib
import pytest

@pytest.mark.rate(1e-4)
def test_fails(tmp_path):
    with pathlib.Path("folders").open("a") as file:
        file.write(f"{tmp_path}\\n")
    raise ValueError

@pytest.mark.rate(1e-4)
def test_holds(): ...
"""


@pytest.fixture
def fresh(tmp_path):
    def run(text: str) -> tuple[int, list[dict]]:
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = rate\n")
        command = [sys.executable, TOOL, "--runs", "3", "--out", "runs.jsonl", "test_it.py"]
        paths = os.environ | {"PYTHONPATH": str(TOOL.parent)}
        ended = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True)
        out = tmp_path / "runs.jsonl"
        lines = out.read_text().splitlines() if out.exists() else []
        return ended.returncode, [json.loads(line) for line in lines]

    return run


def test_failures_are_counted_and_runs_share_no_temporary_folder(fresh, tmp_path):
    code, runs = fresh(TESTS)
    assert code == 1
    assert [seen["failed"] for seen in runs] == [["test_it.py::test_fails"]] * 3
    folders = [Path(line) for line in (tmp_path / "folders").read_text().splitlines()]
    assert len({folder.parents[1] for folder in folders}) == len(folders) == 4


def test_tests_that_are_not_found_are_an_error(fresh):
    code, runs = fresh("import nothing_of_this_name\n")
    assert code != 0
    assert not runs
