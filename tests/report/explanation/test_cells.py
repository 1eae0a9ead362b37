"""Pictures of patterns: the right blocks, and words for those who do not see them."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import BlockPatterns
from flwr_kld.errors import DomainError
from flwr_kld.report.explanation import pattern_svg

SVG = "{http://www.w3.org/2000/svg}"


@given(st.integers(0, 65535))
def test_ink_is_drawn_where_the_pattern_has_it_and_named_in_the_title(symbol):
    root = ElementTree.fromstring(pattern_svg(symbol))
    frame, *blocks = (path.get("d") for path in root.iter(f"{SVG}path"))
    assert frame == "M0 0h4v4h-4z"
    drawn = np.zeros((4, 4), dtype=bool)
    for block in blocks:
        x, y = block.removeprefix("M").removesuffix("h1v1h-1z").split()
        drawn[int(y), int(x)] = True
    assert (drawn == ~BlockPatterns().pattern(symbol)).all()
    named = np.zeros((4, 4), dtype=bool)
    title = root.find(f"{SVG}title").text
    assert root.get("role") == "img"
    for part in title.removeprefix("4 by 4 blocks, ink in ").split("; "):
        if part.startswith("row "):
            row, columns = part.removeprefix("row ").split(": ")
            named[int(row) - 1, [int(c) - 1 for c in columns.split(", ")]] = True
    assert (named == drawn).all()


def test_no_ink_and_no_symbol():
    assert "no ink" in pattern_svg(65535)
    assert "no image of the expected form" in pattern_svg(65536)
    with pytest.raises(DomainError):
        pattern_svg(65537)
