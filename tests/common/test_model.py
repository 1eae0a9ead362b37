"""The codec by itself: what is written is read, and nothing else is."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field, Json

from flwr_kld.common.strict_model import DecodingError, Model
from flwr_kld.kernel.arguments import integer


@dataclass(frozen=True)
class Inner(Model, what="the inner"):
    number: int
    part: float = 0.5

    def __post_init__(self) -> None:
        integer("number", self.number, least=1, most=9)


@dataclass(frozen=True)
class Outer(Model, what="the outer", version=3):
    number: int
    part: float
    other: Json[Inner | None]
    raw: bytes
    list: list[int]
    text: Annotated[str, Field(max_length=3)] = ""

    def __post_init__(self) -> None:
        integer("number", self.number, least=1, most=9)


VALUE = Outer(7, 0.5, Inner(2, 1.0), b"\xff", [1, 0], "käs")
CONFIG = {
    "version": 3, "number": 7, "part": 0.5, "other": '{"number":2,"part":1.0}', "raw": b"\xff",
    "list": [1, 0], "text": "käs",
}  # fmt: skip


def test_a_model_has_one_record():
    assert VALUE.to_config() == CONFIG
    assert Outer.from_config(CONFIG) == VALUE
    assert Outer.from_config({**CONFIG, "other": "null"}).other is None


@pytest.mark.parametrize("given", [None, 3, "text", b"", [], {}, {"version": True}, object()])
def test_what_is_no_record_of_this_version_is_refused(given):
    with pytest.raises(DecodingError, match="version"):
        Outer.from_config(given)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("number", 0, "number"),
        ("number", True, "number"),
        ("number", "7", "number"),
        ("number", 7.0, "number"),
        ("number", 7.5, "number"),
        ("part", 1, "part"),
        ("part", float("nan"), "part"),
        ("part", float("inf"), "part"),
        ("part", None, "part"),
        ("other", "none", "other"),
        ("other", "[" * 100_000, "other"),
        ("other", '{"number":2}', "other"),
        ("other", '{"number":2, "part":1.0}', "other"),
        ("other", '{"number":2,"number":2,"part":1.0}', "other"),
        ("other", '{"number":77,"part":1.0}', "other"),
        ("other", '{"more":77,"number":7,"part":1.0}', "field"),
        ("other", b"null", "other"),
        ("raw", "text", "raw"),
        ("list", [True, 0], "list"),
        ("list", [1.0, 0], "list"),
        ("list", (1, 0), "list"),
        ("list", ["secret"], "list"),
        ("text", "long", "text"),
        ("text", b"abc", "text"),
        ("secret", 1, "field"),
    ],
)
def test_a_record_with_a_wrong_field_is_refused_by_its_name(name, value, words):
    with pytest.raises(DecodingError, match=words) as refusal:
        Outer.from_config({**CONFIG, name: value})
    assert "secret" not in str(refusal.value)
    assert (refusal.value.__context__, refusal.value.__cause__) == (None, None)


@pytest.mark.parametrize("name", sorted(CONFIG.keys() - {"version"}))
def test_a_missing_field_is_refused_even_if_it_has_a_default(name):
    left = {key: value for key, value in CONFIG.items() if key != name}
    with pytest.raises(DecodingError, match=name):
        Outer.from_config(left)


@pytest.mark.parametrize(
    "text",
    [
        '{"part":0.5,"number":7}',
        '{"number": 7, "part": 0.5}',
        '{"number":7,"part":0.50}',
        '{"number":7,"part":5e-1}',
        '{"number":7.0,"part":0.5}',
        '{"number":7}',
        '{"number":7,"number":7,"part":0.5}',
        '{"number":7,"part":0.5}\n',
        '{"number":7,"part":NaN}',
        "",
        "null",
        b'{"number":7,"part":0.5}',
    ],
)
def test_one_meaning_has_one_text(text):
    assert Inner.from_json('{"number":7,"part":0.5}') == Inner(7)
    with pytest.raises(DecodingError, match="inner"):
        Inner.from_json(text)
