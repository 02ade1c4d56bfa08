"""Options, from JSON and from the command line's text."""

import math
from typing import Any

import pytest

from scope_bpf.catalogue.options import Option, parse_options
from scope_bpf.errors import InvalidOption

NUMBER = Option("size", "integer", 7, "how large", minimum=2, maximum=11)
FLAG = Option("flag", "boolean", False, "whether")
ONE = Option("one", "choice", "a", "which", choices=("a", "b"))
MANY = Option("many", "names", (), "which ones", choices=("read", "write", "open"))
FREE = Option("free", "names", (), "any words")


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
    ],
    ids=repr,
)
def test_a_value_is_taken(option: Option, given: Any, taken: Any) -> None:
    """JSON's types and text mean the same; names are kept once, in order."""
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
    ids=repr,
)
def test_a_value_is_refused(option: Option, given: Any, wanted: str) -> None:
    """The message names the option, what was given and what would do."""
    with pytest.raises(InvalidOption, match=f"option '{option.name}': .* is not {wanted}"):
        option.parse(given)


@pytest.mark.parametrize("given", ["", " , ", [], [""]], ids=repr)
def test_no_names_are_not_every_name(given: Any) -> None:
    """A list without a name is refused, because it could mean nothing or all."""
    with pytest.raises(InvalidOption, match=r"option .many.: .* names nothing; leave the option out for its default"):
        MANY.parse(given)


def test_an_unknown_name_is_named() -> None:
    """Of several names the wrong one is in the message."""
    with pytest.raises(InvalidOption, match="option 'many': there is no 'reed'"):
        MANY.parse("read,reed")


def test_defaults_are_filled_in() -> None:
    """Every option has a value afterwards; the order is the probe's."""
    assert parse_options([NUMBER, FLAG], {"flag": "true"}) == {"size": 7, "flag": True}


def test_an_unknown_option_is_refused() -> None:
    """The message lists those there are."""
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
    """Of options and of their values, where one is like what was given."""
    with pytest.raises(InvalidOption) as refused:
        parse_options([MANY, ONE], given)
    assert str(refused.value) == said
