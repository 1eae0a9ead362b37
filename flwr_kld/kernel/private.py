"""What private objects have in common: they show nothing, and nothing copies them.

>>> from flwr_kld.kernel.private import Private
>>> class Diagnosis(Private):
...     __slots__ = ("_name",)
...     def __init__(self, name):
...         self._name = name
>>> Diagnosis("measles")
Diagnosis(<private>)
>>> [name for name in dir(Diagnosis("measles")) if "name" in name]
[]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, NoReturn, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class Private:
    """Base of private objects: no value in ``repr``, ``dir``, ``vars``, a pickle or a copy.

    Subclasses have ``__slots__``, and verbs for what may be done with the values. Their own
    methods can read the values; tools that look at an object from outside (error trackers,
    debuggers, ``rich.inspect``, serialisers) find none. It equals itself only, and is neither
    iterated nor turned into an array or bytes.
    """

    __slots__ = ()

    _hidden: ClassVar[frozenset[str]] = frozenset()
    """Attributes without an underscore that hold private values for their own package."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    def __dir__(self) -> Iterable[str]:
        names = super().__dir__()
        return [name for name in names if name not in self._hidden and not name.startswith("_")]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is private and must not be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"the state of a {type(self).__name__} is private")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is private and cannot become an array")


class Held(Private, Generic[_T]):
    """One private value of another type, on its way through code that need not see it."""

    __slots__ = ("_value",)

    def __init__(self, value: _T) -> None:
        self._value = value

    def into(self, use: Callable[[_T], _R]) -> _R:
        """Return what a function makes of the value."""
        return use(self._value)


class OneProcess(Private):
    """A private object that must not go on twice from one state, as two forks of it would."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    def _stay_here(self) -> None:
        """Refuse to go on in a fork of the process that made this object.

        Raises
        ------
        RuntimeError
            If this is another process.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to the process that made it, not to a fork "
                "of it: make one in each process"
            )
