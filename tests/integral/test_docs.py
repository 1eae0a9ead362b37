"""The page on integral privacy runs as it stands, and its corollary holds."""

import doctest
import re
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from integral.laws import box_weights, data_sets, finite_base

import flwr_kld.integral
from flwr_kld.integral import Mollifier, mollify
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL

PAGE = Path(__file__).parents[2] / "docs" / "integral.md"


def test_the_examples_run_and_print_what_they_promise(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2.0"
    assert lines[2].endswith("<= 1.65")
    # About 1.38, measured with a standard error of .028: six of them below, and far above.
    assert 1.2 < names["ratio"] < np.exp(0.5) * 1.08
    assert lines[3] == "2"
    assert lines[4].startswith("draw exemplars")
    assert lines[5].startswith("make a reference of a noised histogram")


def test_the_package_example_runs():
    assert doctest.testmod(flwr_kld.integral).failed == 0


def test_every_rule_is_bounded_for_every_pair_of_data_sets_exactly():
    """Lemma 9: all decision rules on 4 symbols are all sets of symbols that lead to a grant."""
    base, box = finite_base([0.4, 0.3, 0.2, 0.1]), Mollifier.symmetric(0.5)
    laws = [
        box_weights(mollify(np.repeat(records, 20), base, box, rounds=2))
        for records in data_sets(4, (2, 3))
    ]
    rules = chain.from_iterable(combinations(range(4), n) for n in (1, 2, 3))
    for rule in rules:
        rates = [Fraction(sum(law[x] for x in rule), TOTAL) for law in laws]
        assert max(rates) / min(rates) <= exp_below(0.5)
