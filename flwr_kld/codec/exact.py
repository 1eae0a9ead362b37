"""Types of fields that take nothing else for theirs: no text for a number, no True for 1.

A message that is written again and compared needs none of them; values that somebody may have
written by hand, or that an earlier release wrote in another form, do.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

Text = Annotated[str, Strict()]
Whole = Annotated[int, Strict()]
NotNegative = Annotated[int, Strict(), Field(ge=0)]
Real = Annotated[float, Strict()]
"""A whole number may stand for a real one: 1 for 1.0."""
Flag = Annotated[bool, Strict()]
