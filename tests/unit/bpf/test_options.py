"""Options: what they take, and what they say of anything else."""

from typing import Any

import pytest

from scope_bpf.errors import InvalidOption
from scope_bpf.options import Option, parse_options

SIZE = Option("size", "integer", 7, "", minimum=1, maximum=10)
LOUD = Option("loud", "boolean", False, "")
MODE = Option("mode", "choice", "a", "", choices=("a", "b"))
NAMES = Option("names", "names", (), "", choices=("x", "y"))
ALL = (SIZE, LOUD, MODE, NAMES)


def test_defaults_are_filled_in() -> None:
    """Every option has a value, given or not."""
    assert parse_options(ALL, {"size": 3}) == {"size": 3, "loud": False, "mode": "a", "names": ()}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"size": "3"}, 3),
        ({"size": 3.0}, 3),
        ({"loud": "true"}, True),
        ({"mode": "b"}, "b"),
        ({"names": "x, y,x"}, ("x", "y")),
        ({"names": ["y"]}, ("y",)),
    ],
)
def test_text_and_json_are_taken(given: dict[str, Any], value: Any) -> None:
    """A value may come from a command line, as text, or from JSON."""
    (name,) = given
    assert parse_options(ALL, given)[name] == value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": 11}, "option 'size': 11 is not from 1 to 10"),
        ({"size": 1.5}, "1.5 is not a whole number"),
        ({"size": True}, "True is not a whole number"),
        ({"size": "many"}, "'many' is not a whole number"),
        ({"size": float("inf")}, "inf is not a whole number"),
        ({"loud": 1}, "1 is not true or false"),
        ({"mode": "c"}, "'c' is not one of a, b"),
        ({"names": "z"}, "there is no 'z'"),
        ({"names": 3}, "3 is not names separated by commas"),
        ({"volume": 1}, "no option named 'volume'; there are: size, loud, mode, names"),
    ],
)
def test_anything_else_is_told(given: dict[str, Any], said: str) -> None:
    """The error names the option and what it would take."""
    with pytest.raises(InvalidOption) as error:
        parse_options(ALL, given)
    assert said in str(error.value)
