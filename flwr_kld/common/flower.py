"""Which versions of Flower this package was tested with."""

from functools import cache
from importlib import metadata

version = cache(metadata.version)
_TESTED = ("1.41", "1.42")


def untested_flower() -> str | None:
    """Say that the Flower that is installed is another, if it is."""
    found = version("flwr")
    if found.startswith(tuple(f"{tested}." for tested in _TESTED)):
        return None
    return f"Flower {found} is untested with flwr-kld: install {' or '.join(_TESTED)}"
