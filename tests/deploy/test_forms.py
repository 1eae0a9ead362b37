"""Files that other programs read have the form that those programs ask for."""

import pytest
from check_jsonschema import main
from click.testing import CliRunner
from recipes import ROOT

GITHUB = ROOT / ".github"
FORMS = [
    *(("github-workflows", path) for path in GITHUB.glob("workflows/*.yml")),
    *(("github-issue-forms", path) for path in GITHUB.glob("ISSUE_TEMPLATE/[!c]*.yml")),
    ("github-issue-config", GITHUB / "ISSUE_TEMPLATE" / "config.yml"),
    ("compose-spec", ROOT / "deploy" / "compose.yaml"),
    ("citation-file-format", ROOT / "CITATION.cff"),
]


@pytest.mark.parametrize(("form", "path"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_a_file_has_its_form(form, path):
    done = CliRunner().invoke(main, ["--builtin-schema", f"vendor.{form}", str(path)])
    assert done.exit_code == 0, done.output
