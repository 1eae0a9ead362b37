"""The versions that the documents state are those of the code."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from flwr_kld import reference
from flwr_kld.common import canonical_bytes as wire
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


def test_the_installed_flower_is_one_that_is_said_to_be_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (accepted,) = (name for name in project["dependencies"] if name.startswith("flwr"))
    tested = ".".join(version("flwr").split(".")[:2])
    said = re.search(r"tested with flwr ([\d. and]+), and accepts `(.*?)`", TEXT)
    assert said is not None
    assert tested in said[1].split(" and ")
    assert said[2] == accepted
