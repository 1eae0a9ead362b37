"""Texts of the apps that ``init`` writes, and strings as Python and TOML write them."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

from flwr_kld.codec.json_text import json_text

_FOLDER = Path(__file__).parent / "app_templates"


def fill(template: str, /, **values: Any) -> str:
    """Return a template with its values put in.

    Raises
    ------
    KeyError
        If it names a value that is not given.
    """
    return Template((_FOLDER / template).read_text(encoding="utf-8")).substitute(values)


def quoted(text: str) -> str:
    """Write a string for TOML.

    Raises
    ------
    ValueError
        If it holds control characters or no Unicode text: no path or URL should.
    """
    if not text.isprintable():
        raise ValueError(f"{text!r} holds characters that cannot be printed: choose another name")
    return json_text(text, ensure_ascii=False)
