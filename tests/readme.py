"""The files that the README shows."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def recipe_text(name: str) -> str:
    """Text of one of the README's recipe files."""
    pattern = rf"<!-- recipe: {name} -->\n```python\n(.*?)```"
    (code,) = re.findall(pattern, README.read_text(), re.DOTALL)
    return code
