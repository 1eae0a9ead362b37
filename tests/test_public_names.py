"""The public face: few names, in packages that `docs/api.md` shows."""

import importlib
import re
from pathlib import Path

import pytest
from public_face import PACKAGES

ROOT = Path(__file__).parents[1]
MOST = 92


def exported() -> dict[str, list[str]]:
    found = {
        name: getattr(importlib.import_module(name), "__all__", []) for name in sorted(PACKAGES)
    }
    return {package: names for package, names in found.items() if names}


def test_the_page_of_public_names_shows_every_package_that_has_some():
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: (.*)$", page, flags=re.M)) == sorted(exported())


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
