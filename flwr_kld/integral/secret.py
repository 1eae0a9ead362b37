"""Objects that hold what the private data were fitted to, and show none of it."""

from __future__ import annotations


class Secret:
    """Base of private objects: no value in ``repr``, no pickle, no copy."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    def __reduce__(self) -> str:
        raise TypeError(f"a {type(self).__name__} is private and must not be pickled or copied")
