"""Each number of a module of `infer` is explained in its docstring, or said not to be tuned."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flwr_kld import infer

FILES = sorted(Path(infer.__file__).parent.rglob("*.py"))


def holds_number(value: ast.expr) -> bool:
    """Whether an expression has a number of its own in it."""
    return any(
        isinstance(node, ast.Constant) and type(node.value) in (int, float)
        for node in ast.walk(value)
    )


def numbers_of(source: str) -> Iterator[str]:
    """Yield the names of a module's numbers that no comment says are not tuned."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if holds_number(node.value) and "# Not tuned: " not in lines[node.lineno - 1]:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def explained(source: str) -> set[str]:
    """Names in the rows of a module's table, and in backquotes in its docstring."""
    doc = ast.get_docstring(ast.parse(source)) or ""
    return set(re.findall(r"`(\w+)`", doc)) | set(re.findall(r"^(\w+)  ", doc, re.MULTILINE))


def unexplained(source: str) -> set[str]:
    """Names of numbers that a reader cannot judge."""
    return set(numbers_of(source)) - explained(source)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_is_explained(path):
    assert not unexplained(path.read_text())


def test_a_number_without_a_row_is_found():
    source = '"""Text.\n\n====  ====\n_ROW  unit\n====  ====\n\n`_TOLD` is tuned, too.\n"""\n'
    source += "_ROW, _TOLD = 1, 2.0\n_NAME = 'text'\n_PI = 3.14  # Not tuned: π\n"
    assert unexplained(source) == set()
    assert unexplained(source + "_BARE: float = 0.5\n_LIST = [x / 2 for x in range(3)]\n") == {
        "_BARE", "_LIST",
    }  # fmt: skip
