"""Everything public that takes a number, a list of any, or a choice, as signatures tell it."""

import enum
import importlib
import inspect
import re
import sys
import tomllib
import types
import typing
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = sorted(
    set(PROJECT["tool"]["setuptools"]["packages"]) - {"flwr_kld.simulations.analytics_app"}
)
"""All but an app's files, which are no Python package."""
KINDS = {
    r"int": "whole", r"float": "real",
    r"(tuple\[int, \.\.\.\]|(Sequence|Iterable)\[int\])": "wholes",
    r"(tuple\[float, \.\.\.\]|(Sequence|Iterable)\[float\])": "reals",
    r"(tuple\[str, \.\.\.\]|(Sequence|Iterable)\[str\])( \| Sequence\[int\])?": "texts",
}  # fmt: skip


def public():
    """Yield everything public that can be called to make or compute something."""
    for package in PACKAGES:
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


def _parameters(value):
    try:
        return inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # an exception
        return ()


def numbers(value):
    """Name the arguments that are numbers or lists of any, with their kind."""
    for parameter in _parameters(value):
        written = inspect.formatannotation(parameter.annotation).replace("collections.abc.", "")
        written = written.strip("'").removesuffix(" | None")
        for pattern, kind in KINDS.items():
            if re.fullmatch(pattern, written):
                yield parameter, kind


def choices(value):
    """Name the arguments that are one of some texts, with the members or texts themselves."""
    for parameter in _parameters(value):
        meant = _meant(value, parameter.annotation)
        union = typing.get_origin(meant) in (types.UnionType, typing.Union)
        parts = typing.get_args(meant) if union else (meant,)
        for part in parts:
            if isinstance(part, type) and issubclass(part, enum.StrEnum):
                yield parameter, tuple(part)
            elif typing.get_origin(part) is typing.Literal:
                texts = tuple(one for one in typing.get_args(part) if isinstance(one, str))
                if texts:
                    yield parameter, texts


def _meant(value, annotation):
    """Resolve an annotation where it was written: with the class, or a base of it."""
    if not isinstance(annotation, str):
        return annotation
    for owner in value.__mro__ if isinstance(value, type) else (inspect.unwrap(value),):
        try:
            return eval(annotation, vars(sys.modules[owner.__module__]))
        except NameError:
            continue
    return None
