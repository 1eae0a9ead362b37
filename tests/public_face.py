"""Everything public that takes a number, or a list of any, as signatures tell it."""

import enum
import importlib
import inspect
import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
KINDS = {
    r"int": "whole", r"float": "real",
    r"(tuple\[int, \.\.\.\]|(Sequence|Iterable)\[int\])": "wholes",
    r"(tuple\[float, \.\.\.\]|(Sequence|Iterable)\[float\])": "reals",
    r"(tuple\[str, \.\.\.\]|(Sequence|Iterable)\[str\])( \| Sequence\[int\])?": "texts",
}  # fmt: skip


def public():
    """Yield everything public that can be called to make or compute something."""
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not callable(value) or getattr(value, "_is_protocol", False):
                continue
            if not isinstance(value, type):
                if inspect.isfunction(inspect.unwrap(value)):
                    yield value
            elif not (issubclass(value, enum.Enum) or inspect.isabstract(value)):
                yield value


def numbers(value):
    """Name the arguments that are numbers or lists of any, with their kind."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # an exception
        return
    for parameter in parameters:
        written = inspect.formatannotation(parameter.annotation).replace("collections.abc.", "")
        written = written.strip("'").removesuffix(" | None")
        for pattern, kind in KINDS.items():
            if re.fullmatch(pattern, written):
                yield parameter, kind
