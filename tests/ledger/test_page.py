"""The operator's page shows code that runs."""

import re
from pathlib import Path

from ledger.books import DAY, ask
from ledger.conftest import NOW

from flwr_kld.ledger import Budget, Ledger

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


def test_a_window_never_runs_out_of_the_epsilon_that_the_page_computes(ledger_at, tmp_path):
    """A thirty-first of the budget, 31 times: the ledger rounds each up."""
    epsilon = example("nightly_epsilon.py", {})["epsilon_of_a_check"](1.0, 30, 4, 4)
    ledger = Ledger(ledger_at(tmp_path / "drift.db"))
    ledger.set_budget(Budget(1.0, 1e-6, 30, composition="sum"), now=NOW)
    for night in range(40):
        ledger.reserve(f"{night}", ask(epsilon), now=NOW + night * DAY)
