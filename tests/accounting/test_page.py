"""The operator's page shows code that runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_the_example_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(
        r"<!-- example: ledger.py -->\n```python\n(.*?)```", PAGE.read_text(), re.S
    )
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    left, entry = capsys.readouterr().out.splitlines()
    assert left.startswith("0.75")
    assert entry == "2026-01-05 settled {'schema': 1}"
