"""Optional dependencies, imported when they are first needed."""

from importlib import import_module
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"this part of flwr-kld needs {package}: pip install 'flwr-kld[{extra}]'"
        ) from None
