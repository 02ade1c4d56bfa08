"""Options from JSON and from text of the command line."""

import math
from typing import Any

import pytest

from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import Option, parse_options

NUMBER = Option("size", "integer", 7, "how large", minimum=2, maximum=11)
FLAG = Option("flag", "boolean", False, "whether")
ONE = Option("one", "choice", "a", "which", choices=("a", "b"))
MANY = Option("many", "names", (), "which ones", choices=("read", "write", "open"))
CLASSED = Option(
    "calls", "names", (), "which", choices=MANY.choices, classes={"%io": frozenset({"write", "read", "aio"})}
)
FREE = Option("free", "names", (), "any words")


def refuse_short(words: tuple[str, ...]) -> None:
    """What a probe may not take."""
    if any(len(word) < 3 for word in words):
        raise InvalidOption("too short")


CHECKED = Option("checked", "names", (), "any long words", check=refuse_short)


def _id(value: Any) -> str:
    """The same in every process that runs tests, although an option may have a function."""
    return value.name if isinstance(value, Option) else repr(value)


@pytest.mark.parametrize(
    ("option", "given", "taken"),
    [
        (NUMBER, 2, 2),
        (NUMBER, "11", 11),
        (NUMBER, 3.0, 3),
        (FLAG, True, True),
        (FLAG, "true", True),
        (FLAG, "false", False),
        (ONE, "b", "b"),
        (MANY, "read,write", ("read", "write")),
        (MANY, " read , ,read,open", ("read", "open")),
        (MANY, ["write"], ("write",)),
        (FREE, "any thing,else", ("any thing", "else")),
        (CHECKED, "long,words", ("long", "words")),
    ],
    ids=_id,
)
def test_a_value_is_taken(option: Option, given: Any, taken: Any) -> None:
    """A value may be of a JSON type or text. Each name is kept once, in order."""
    assert option.parse(given) == taken


@pytest.mark.parametrize(
    ("option", "given", "wanted"),
    [
        (NUMBER, 1, "from 2 to 11"),
        (NUMBER, 12, "from 2 to 11"),
        (NUMBER, "seven", "a whole number"),
        (NUMBER, 2.5, "a whole number"),
        (NUMBER, math.inf, "a whole number"),
        (NUMBER, math.nan, "a whole number"),
        (NUMBER, True, "a whole number"),
        (NUMBER, None, "a whole number"),
        (FLAG, "yes", "true or false"),
        (FLAG, 1, "true or false"),
        (ONE, "c", "one of a, b"),
        (ONE, ["a"], "one of a, b"),
        (MANY, 7, "names separated by commas"),
        (MANY, ["read", 7], "names separated by commas"),
    ],
    ids=_id,
)
def test_a_value_is_refused(option: Option, given: Any, wanted: str) -> None:
    """The message names the option and the allowed values."""
    with pytest.raises(InvalidOption, match=f"option '{option.name}': .* is not {wanted}"):
        option.parse(given)


@pytest.mark.parametrize("given", ["", " , ", [], [""]], ids=repr)
def test_no_names_are_not_every_name(given: Any) -> None:
    """An empty list of names is refused, because it could mean nothing or everything."""
    with pytest.raises(InvalidOption, match=r"option .many.: .* names nothing; leave the option out for its default"):
        MANY.parse(given)


def test_names_are_checked_by_the_probe() -> None:
    """What a probe does not understand is refused in its words."""
    with pytest.raises(InvalidOption, match="too short"):
        CHECKED.parse("long,no")


def test_an_unknown_name_is_named() -> None:
    """The message has the unknown one of several names."""
    with pytest.raises(InvalidOption, match="option 'many': there is no 'reed'"):
        MANY.parse("read,reed")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("%io", ("read", "write")),
        ("open,%io,read", ("open", "read", "write")),
        ("*e*", ("read", "write", "open")),
        ("?r*,open", ("write", "open")),
    ],
)
def test_classes_and_patterns_stand_for_names(words: str, names: tuple[str, ...]) -> None:
    """Classes and patterns stand for known names, each once. The value keeps the words: other hosts may differ."""
    assert CLASSED.chosen(CLASSED.parse(words)) == names
    assert CLASSED.parse(words) == tuple(words.split(","))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("read,%ip", r"there is no '%ip' \(did you mean '%io'\?\)"),
        ("opne*", r"there is no 'opne\*' \(did you mean 'open'\?\)"),
        ("x?", r"there is no 'x\?'$"),
    ],
)
def test_a_word_that_stands_for_nothing_is_refused(words: str, said: str) -> None:
    """The message suggests similar names and classes."""
    with pytest.raises(InvalidOption, match=said):
        CLASSED.parse(words)


def test_defaults_are_filled_in() -> None:
    """Every option gets a value; an option that was not given has its default."""
    assert parse_options([NUMBER, FLAG], {"flag": "true"}) == {"size": 7, "flag": True}


def test_an_unknown_option_is_refused() -> None:
    """The message lists the options of the probe."""
    with pytest.raises(InvalidOption, match="no option named 'nonsense'; there are: size, flag"):
        parse_options([NUMBER, FLAG], {"nonsense": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"many": "reed,open"}, "option 'many': there is no 'reed' (did you mean 'read'?)"),
        ({"many": "xyz"}, "option 'many': there is no 'xyz'"),
        ({"mny": "read"}, "no option named 'mny' (did you mean 'many'?); there are: many, one"),
        ({"one": "bb"}, "option 'one': 'bb' is not one of a, b (did you mean 'b'?)"),
        ({"one": "xyz"}, "option 'one': 'xyz' is not one of a, b"),
    ],
)
def test_the_nearest_name_is_suggested(given: dict[str, Any], said: str) -> None:
    """Messages suggest a similar option or value, if there is one."""
    with pytest.raises(InvalidOption) as refused:
        parse_options([MANY, ONE], given)
    assert str(refused.value) == said
