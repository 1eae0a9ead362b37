"""Every public constructor and function takes a choice by its text, and lists those there are."""

import inspect

import pytest
from public_face import choices, public
from test_constructors import ANSWERS, EXAMPLES, FROM_ELSEWHERE

TAKES_CHOICES = {
    value: found
    for value in dict.fromkeys([*public(), *EXAMPLES])
    if (found := list(choices(value)))
}
CHOICES = [
    pytest.param(value, parameter.name, some, id=f"{value.__name__}-{parameter.name}")
    for value, parameters in TAKES_CHOICES.items()
    if value in EXAMPLES
    for parameter, some in parameters
]


def call(value, **changes):
    return value(**{**EXAMPLES[value], **changes})


def test_whatever_takes_a_choice_has_an_example():
    known = EXAMPLES.keys() | ANSWERS | FROM_ELSEWHERE
    assert {value.__name__ for value in TAKES_CHOICES.keys() - known} == set()


@pytest.mark.parametrize(("value", "name", "some"), CHOICES)
@pytest.mark.parametrize("wrong", ["bogus", "", None, 7, b"record", ["record"]])
def test_what_is_no_choice_is_refused_with_a_list_of_those_there_are(value, name, some, wrong):
    if wrong is None and inspect.signature(value).parameters[name].default is None:
        return  # it may be left out
    with pytest.raises(ValueError, match=name) as caught:
        call(value, **{name: wrong})
    assert [str(one) for one in some if f"'{one}'" not in str(caught.value)] == []


@pytest.mark.parametrize(("value", "name", "some"), CHOICES)
def test_the_text_of_a_choice_is_as_good_as_its_member(value, name, some):
    for member in some:
        made = []
        for given in (member, str(member)):
            try:
                made.append(getattr(call(value, **{name: given}), name, member))
            except ValueError as error:  # goes ill with the rest of the example
                made.append(str(error))
        assert made[0] == made[1]
        assert type(made[0]) is type(made[1])
