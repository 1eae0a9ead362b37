"""The versions that the documents state are those of the code."""

import re
from importlib.metadata import version
from pathlib import Path

from flwr_kld import reference
from flwr_kld.common import canonical_bytes as wire
from flwr_kld.common import flower
from flwr_kld.ledger import schema
from flwr_kld.report import envelope
from flwr_kld.trust import sealing, terms

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/deployment.md").read_text()


def test_the_stated_versions_are_the_codes():
    stated = dict(re.findall(r"^\| ([\w ]+) \| (\w+) \|", TEXT, re.MULTILINE))
    del stated["what"]
    assert stated == {
        "messages of a check": str(terms.VERSION),
        "secure sum": wire.MAGIC.decode(),
        "sealed counts": sealing._MAGIC.decode().rstrip("\0").rpartition(" ")[2],
        "ledger": schema.SCHEMA,
        "reference file": str(reference._FORMAT),
        "stored report": str(envelope.SCHEMA),
    }


def test_every_project_accepts_the_flower_that_is_said_to_be_tested():
    said = re.search(r"tested with flwr ([\d. and]+), and accepts `(.*?)`", TEXT)
    assert said is not None
    tested = said[1].split(" and ")
    assert ".".join(version("flwr").split(".")[:2]) in tested
    assert tuple(tested) == flower._TESTED
    projects = [ROOT / "pyproject.toml", *ROOT.glob("examples/*/pyproject.toml"),
                ROOT / "flwr_kld/cli/app_templates/pyproject.toml.txt",
                *ROOT.glob("simulations/*/pyproject.toml")]  # fmt: skip
    accepted = {
        project: set(re.findall(r'"flwr(?:\[\w+\])?([<>=].*?)"', project.read_text()))
        for project in projects
    }
    assert len(accepted) > 10
    assert set(map(frozenset, accepted.values())) == {frozenset({said[2].removeprefix("flwr")})}


def test_every_document_names_the_release_that_the_changelog_begins_with():
    release = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    files = [
        ROOT / "RELEASING.md",
        ROOT / "docs/deployment.md",
        *(file for file in (ROOT / "deploy").rglob("*") if file.suffix in {"", ".yaml"}),
    ]
    named = [
        name
        for file in files
        if file.is_file()
        for name in re.findall(
            r"(?:flwr[-_]kld(?:[-:]|>=| )|appVersion: |--annotate v)(\d[\w.]*\w)", file.read_text()
        )
    ]
    assert len(named) > 8
    assert set(named) == {release}
    fallback = re.search(r'fallback_version = "(.*?)"', (ROOT / "pyproject.toml").read_text())
    assert fallback is not None
    assert fallback[1] == f"{release}.dev0"
