"""The shape of a text: what it looks like and how long it is, and nothing of what it says."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

from flwr_kld.domain.base import Domain, Symbols
from flwr_kld.domain.codes import symbols_of_texts

_LONGEST = 64
"""Characters that patterns are matched with: a longer text could take a reader hours."""
_NUMBER = re.compile(r"[-+$€£¥]?\s?\d[\d.,'’ ]*(?:[eE][-+]?\d+)?\s?[%$€£¥]?")
_DATE = re.compile(
    r"(?:\d{4}([-./])\d{1,2}\1\d{1,2}|\d{1,2}([-./])\d{1,2}\2(?:\d{4}|\d\d))(?:[T ,].*)?"
)
_LOOKS = ("number", "date", "e-mail", "word", "words", "code")
_LENGTHS = (4, 8, 16, 64, 256)
_LENGTH_NAMES = ("1–4", "5–8", "9–16", "17–64", "65–256", "more than 256")


@dataclass(frozen=True, eq=False)
class TextShape(Domain):
    """What a text looks like, and how long it is; then come 'empty', 'other' and 'missing'.

    For columns of identifiers and free text, which have no symbols of their own: identifiers that
    grow longer, notes that shrink to a word, e-mail addresses in a field for numbers. A text is the
    first that fits of: a date, a number, several words, an e-mail address, a word of letters, a
    code. A number is the text that it is written as; what is neither text nor number is 'other'.

    Examples
    --------
    >>> shape = TextShape()
    >>> [shape.name_of(i) for i in shape.encode(["AB-1234", "ann@example.org", None])]
    ['code, 5–8 characters', 'e-mail, 9–16 characters', 'missing']
    """

    kind: ClassVar[str] = "text_shape"
    unlisted: ClassVar[tuple[str, ...]] = ("other", "missing")

    @property
    def size(self) -> int:
        """Number of looks times lengths, and three."""
        return len(_LOOKS) * len(_LENGTH_NAMES) + 3

    def encode(self, records: Any) -> Symbols:
        """Map texts to their shapes, and all else to 'other' or 'missing'.

        `records` are an array, a data frame's column, or a sequence of n values of any type;
        the rest is as in `Domain.encode`.
        """
        return symbols_of_texts(records, self._symbol, self)

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return look and length, as ``"code, 5–8 characters"``, or 'empty', 'other', 'missing'."""
        index = self._index(symbol)
        look, length = divmod(index, len(_LENGTH_NAMES))
        if look < len(_LOOKS):
            return f"{_LOOKS[look]}, {_LENGTH_NAMES[length]} characters"
        return ("empty", *self.unlisted)[length]

    def _symbol(self, text: str) -> int:
        text = text.strip()
        if not text:
            return self.size - 3
        look = _LOOKS.index(_look(text))
        return look * len(_LENGTH_NAMES) + bisect_left(_LENGTHS, len(text))


def _look(text: str) -> str:
    """Say what a text looks like."""
    if len(text) <= _LONGEST:
        if _DATE.fullmatch(text):
            return "date"
        if _NUMBER.fullmatch(text):
            return "number"
    if len(text.split(maxsplit=1)) > 1:
        return "words"
    name, _, host = text.partition("@")
    if name and "." in host.strip(".") and "@" not in host:
        return "e-mail"
    return "word" if text.isalpha() else "code"
