"""What the documents name is there, and the site shows every page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from recipes import PAGES, ROOT

DOCS = ROOT / "docs"
IN_THE_TREE = re.compile(r"`((?:flwr_kld|strategies|clients|simulations|tests|docs)/[\w./-]*)")
A_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_every_path_exists(page):
    named = IN_THE_TREE.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@every_page
def test_every_test_that_is_named_exists(page):
    for path, name in A_TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([\w-]+))?\)")


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors(page: Path) -> set[str]:
    """What MkDocs calls a page's headings."""
    titles = re.findall(r"^#+ (.*)$", prose(page), flags=re.M)
    plain = (re.sub(r"[^\w\s-]", "", title.encode("ascii", "ignore").decode()) for title in titles)
    return {re.sub(r"[-\s]+", "-", title.strip().lower()) for title in plain}


@every_page
def test_every_link_leads_somewhere(page):
    for path, anchor in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_a_broken_anchor_is_found():
    assert "a-nodes-own-records" in anchors(DOCS / "tables.md")
    assert "nowhere" not in anchors(DOCS / "tables.md")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


PRIVATE = re.compile(r"/work/|/root/|/home/|/tmp/wt")


@every_page
def test_no_page_has_a_path_of_some_machine(page):
    assert not PRIVATE.search(page.read_text(encoding="utf-8"))


def in_nav(part: object) -> Iterator[str]:
    """Pages of the site's menu, in its order."""
    match part:
        case str():
            yield part
        case list():
            for item in part:
                yield from in_nav(item)
        case dict():
            yield from in_nav(list(part.values()))


def test_the_site_shows_every_page_once():
    pages = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    assert sorted(in_nav(SITE["nav"])) == pages


def test_the_site_is_built_strictly_and_asks_nobody_else():
    assert SITE["strict"] is True
    assert SITE["theme"]["font"] is False


def test_every_package_has_its_api_page():
    packages = re.findall(r"^## `([\w.]+)`", (DOCS / "api.md").read_text(), flags=re.M)
    shown = [
        re.findall(r"^::: ([\w.]+)$", page.read_text(), flags=re.M)
        for page in (DOCS / "api").glob("*.md")
    ]
    assert sorted(name for names in shown for name in names) == sorted(packages)
