"""The files that README and docs show, each under a name of its own."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
"""Every page that a reader sees."""


def recipe_text(name: str) -> str:
    """Text of one of the files."""
    pattern = rf"<!-- recipe: {re.escape(name)} -->\n```python\n(.*?)```"
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    (code,) = re.findall(pattern, pages, re.DOTALL)
    return code
