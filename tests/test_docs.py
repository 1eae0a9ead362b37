"""What the documents name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IN_THE_TREE = re.compile(r"`((?:flwr_kld|strategies|clients|simulations|tests|docs)/[\w./-]*)")
A_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page):
    named = IN_THE_TREE.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page):
    for path, name in A_TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
