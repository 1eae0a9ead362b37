"""Names that users of other libraries try first: the error names what to use instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def suggests(
    attributes: Mapping[str, str] | None = None, arguments: Mapping[str, str] | None = None
) -> Callable[[C], C]:
    """Return a decorator of a class, whose errors about unknown names say what to use instead.

    Parameters
    ----------
    attributes, arguments : Mapping[str, str], optional
        By the name that its objects, or its constructor, do not have.

    Examples
    --------
    >>> @suggests(arguments={"budget": "epsilon="})
    ... class Noise:
    ...     def __init__(self, *, epsilon): ...
    >>> Noise(budget=1)
    Traceback (most recent call last):
    TypeError: Noise() takes no budget=: epsilon= is what it is called
    """

    def decorate(cls: C) -> C:
        if attributes is not None:
            _suggest_attributes(cls, attributes)
        _suggest_arguments(cls, arguments or {})
        return cls

    return decorate


def _suggest_attributes(cls: type, attributes: Mapping[str, str]) -> None:
    def missing(self: object, name: str) -> Any:
        advice = f": use {attributes[name]}" if name in attributes else ""
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}{advice}")

    # Set late, so that type checkers go on to reject names that there are not
    setattr(cls, "__getattr__", missing)  # noqa: B010


def _suggest_arguments(cls: type, arguments: Mapping[str, str]) -> None:
    own = cls.__init__  # type: ignore[misc]
    taken = [name for name in inspect.signature(own).parameters if name != "self"]

    @wraps(own)
    def init(self: object, *args: Any, **named: Any) -> None:
        for name in named.keys() - set(taken):
            advice = arguments.get(name, f"it takes {', '.join(taken)}")
            raise TypeError(f"{cls.__name__}() takes no {name}=: {advice}")
        own(self, *args, **named)

    setattr(cls, "__init__", init)  # noqa: B010
