"""Imports optional dependencies when they are first needed."""

import ast
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"this part of flwr-kld needs {package}: pip install 'flwr-kld[{extra}]'"
        ) from None


def on_request(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``, which load each name's module late.

    Where a name is, the package says once: in what it imports if `TYPE_CHECKING`.
    """

    @cache
    def modules() -> dict[str, str]:
        code = ast.parse(pkgutil.get_data(package, "__init__.py") or b"")
        found = [node for block in code.body if isinstance(block, ast.If) for node in block.body]
        return {
            alias.name: str(node.module)
            for node in found
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def get(name: str) -> Any:
        if name not in modules():
            known = ", ".join(sorted(modules()))
            raise AttributeError(f"module {package!r} has no {name!r}; it has {known}")
        return getattr(import_module(modules()[name]), name)

    return get, lambda: sorted(modules())
