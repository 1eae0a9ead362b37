"""The page on integral privacy runs as it stands, and its corollary holds."""

import doctest
import re
from pathlib import Path

import numpy as np

import flwr_kld.integral

PAGE = Path(__file__).parents[2] / "docs" / "integral.md"


def test_the_examples_run_and_print_what_they_promise(capsys, tmp_path, here):
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2.0"
    assert lines[2].endswith("<= 1.65")
    # About 1.38, measured with a standard error of .028: six of them below, and far above.
    assert 1.2 < names["ratio"] < np.exp(0.5) * 1.08
    assert lines[3] == "2"


def test_the_package_example_runs():
    assert doctest.testmod(flwr_kld.integral).failed == 0
