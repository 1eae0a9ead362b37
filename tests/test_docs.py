"""What the documents name is there, and the site shows every page."""

import ast
import re
from collections.abc import Iterator
from functools import cache
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


A_FILE = re.compile(r"`([\w/-]+\.py)\b")
A_MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)")
OF_AN_APP = {"app/drift.py", "app/client_app.py", "app/server_app.py"}
"""Files that `init` writes."""


@cache
def files() -> list[str]:
    folders = ("flwr_kld", "strategies", "clients", "simulations", "tests", "examples")
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in paths]


@cache
def members() -> dict[str, set[str]]:
    """Names that each class of ours defines or uses, and its bases'."""
    found: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for file in files():
        text = "" if file.startswith("/tests/") else (ROOT / file[1:]).read_text(encoding="utf-8")
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.ClassDef):
                names = found.setdefault(part.name, set())
                for inner in ast.walk(part):
                    match inner:
                        case (
                            ast.FunctionDef(name=name)
                            | ast.Name(id=name)
                            | ast.Attribute(attr=name)
                        ):
                            names.add(name)
                written = (re.split(r"\[", ast.unparse(base))[0] for base in part.bases)
                bases.setdefault(part.name, set()).update(b.split(".")[-1] for b in written)
    for _ in range(4):  # as deep as classes go here
        for name, above in bases.items():
            found[name] = found[name].union(*(found.get(base, set()) for base in above))
    return found


def missing_names(text: str) -> list[str]:
    """Files and members of our classes that a text names, and the tree does not have."""
    named = set(A_FILE.findall(text)) - OF_AN_APP
    lost = [file for file in named if not any(path.endswith(f"/{file}") for path in files())]
    classes = members()
    return sorted(lost) + sorted(
        f"{owner}.{name}"
        for owner, name in set(A_MEMBER.findall(text))
        if owner in classes and name not in classes[owner]
    )


@every_page
def test_every_file_and_member_that_is_named_exists(page):
    assert missing_names(prose(page)) == []


def test_a_name_that_moved_is_found():
    text = "`Trusted.publish` of `trusted.py` and `Trusted.spend` of `flwr_kld/trust/spend.py`"
    assert missing_names(text) == ["flwr_kld/trust/spend.py", "Trusted.spend"]


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
