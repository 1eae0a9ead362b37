"""The public face: few names, each of which `docs/api.md` says in a line."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]["packages"]
MOST = 92


def exported() -> dict[str, list[str]]:
    found = {name: getattr(importlib.import_module(name), "__all__", []) for name in PACKAGES}
    return {package: names for package, names in found.items() if names}


def told() -> dict[str, list[str]]:
    """Names of each package's table."""
    sections = re.split(r"^## `([\w.]+)`.*$", (ROOT / "docs/api.md").read_text(), flags=re.M)[1:]
    return {
        package: re.findall(r"^\| `(\w+)` \| .{10,} \|$", table, flags=re.M)
        for package, table in zip(sections[::2], sections[1::2], strict=True)
    }


def test_every_public_name_has_its_line_and_no_other():
    assert told() == exported()


def pages() -> list[Path]:
    """README, docs and the examples' own pages."""
    return [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_import_nothing_that_may_change_in_any_release(page):
    listed = exported()
    imported = re.findall(r"from (flwr_kld[\w.]*) import ([\w, ]+)", page.read_text("utf-8"))
    for package, names in imported:
        assert set(names.strip().split(", ")) <= set(listed.get(package, ())), (package, names)


def test_public_names_are_few_and_in_one_place():
    names = [name for of_package in exported().values() for name in of_package]
    assert len(names) <= MOST
    assert len(names) == len(set(names))
