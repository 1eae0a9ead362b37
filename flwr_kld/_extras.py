"""What is imported when it is first needed: optional dependencies, and the names of packages."""

from collections.abc import Callable, Mapping
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


def on_request(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``, which load each name's module late."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"flwr_kld.{modules[name]}"), name)

    return get, lambda: sorted(modules)
