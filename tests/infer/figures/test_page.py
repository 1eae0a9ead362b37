"""The page about figures shows code that runs and prints what it says, and names every figure."""

import re
from dataclasses import fields
from pathlib import Path

from flwr_kld.infer.figures.figures import Figures
from flwr_kld.infer.figures.ordered import OrderedFigures

PAGE = (Path(__file__).parents[3] / "docs" / "figures.md").read_text()


def test_the_example_prints_what_the_page_says(capsys):
    code, output = re.findall(
        r"<!-- example: figures.py -->\n```python\n(.*?)```.*?```\n(.*?)```", PAGE, re.DOTALL
    )[0]
    exec(code, {})
    assert capsys.readouterr().out == output


def test_the_table_names_every_figure():
    named = set(re.findall(r"^\| `([\w.]+)` \| ", PAGE, re.MULTILINE))
    whole = {field.name for field in fields(Figures)} - {"ordered"}
    ordered = {f"ordered.{field.name}" for field in fields(OrderedFigures)}
    assert named == (whole | ordered) - {"ordered.reference_mean"}
