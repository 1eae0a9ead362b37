"""The operator's page shows code that runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def example(name, names):
    """Run an example of the page, and return what it defines."""
    (code,) = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(code, names)
    return names


def test_the_example_runs_as_it_stands(tmp_path, here, capsys):
    example("ledger.py", {})
    left, entry = capsys.readouterr().out.splitlines()
    assert left.startswith("0.75")
    assert entry == "2026-01-05 settled {'schema': 1}"
