"""The fenced blocks of README and docs; files among them are shown under a name of their own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
"""Every page that a reader sees."""

_BLOCK = re.compile(
    r"^(?:<!-- (?P<tag>recipe|example|lines): (?P<name>\S+) -->\n)?```(?P<language>\w*)\n"
    r"(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """What stands between two fences.

    A *recipe* is a file of an app, and a test runs it with what it needs; *lines* are part of one.
    An *example* runs by itself and prints what the page's next block says, unless a test has it.
    """

    page: Path
    language: str
    text: str
    tag: str | None
    name: str | None

    @property
    def place(self) -> str:
        """Where it is, for the names of tests."""
        return f"{self.page.relative_to(ROOT)}:{self.name or self.text.split(chr(10))[0][:40]}"


def blocks_of(page: Path) -> Iterator[Block]:
    """Return a page's blocks in their order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        parts = found.groupdict()
        yield Block(page, parts["language"], parts["text"], parts["tag"], parts["name"])


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def recipe_text(name: str) -> str:
    """Text of one of the files."""
    (block,) = [block for block in BLOCKS if block.name == name]
    return block.text


def run_command(example: str) -> str:
    """Return the one ``flwr run`` in an example's README."""
    text = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"^flwr run (?:.*\\\n)*.*", text, re.MULTILINE)
    return str(found)
