"""Optional dependencies, imported when they are first needed."""

from importlib import import_module
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name of the module, for example ``"sklearn.datasets"``.
    extra : str
        Name of the extra of ``flwr-kld`` that installs it.

    Returns
    -------
    ModuleType
        The imported module.

    Raises
    ------
    ImportError
        If the module cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"this part of flwr-kld needs {package}: pip install 'flwr-kld[{extra}]'"
        ) from None
