"""The JSON Schema of a probe's options takes and refuses what the probe does."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scope_agentd.control.messages import option_message
from scope_bpf.probes import probes
from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import Option, parse_options, trial
from scope_server.api.resources.options_schema import options_schema

WRONG: dict[str, list[Any]] = {
    "integer": ["many", 1.5, True, None, [1]],
    "boolean": ["yes", 1, None],
    "choice": ["none of them", 1, None],
    "names": [[], [1], [" "], 1],
    "texts": [[], [1], [" "], 1],
}


def _wrong(option: Option) -> list[Any]:
    beyond = [option.minimum is not None and option.minimum - 1, option.maximum is not None and option.maximum + 1]
    return [*WRONG[option.type], *(value for value in beyond if value is not False)]


@pytest.mark.parametrize("name", probes())
def test_it_takes_what_the_probe_takes(name: str) -> None:
    """Of each option: its default and each of its choices, and nothing of another type, or beyond its bounds."""
    options = probes()[name].options
    schema = json.loads(options_schema(option_message(one) for one in options).model_dump_json(by_alias=True))
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    needed = {name: [value] for name, value in trial(options).items()}
    parse_options(options, needed)
    assert check.is_valid(needed)
    assert not check.is_valid(needed | {"nonsense": 1})
    assert check.is_valid({}) == (not needed)
    for option in options:
        usual = list(option.default) if isinstance(option.default, tuple) else option.default
        for value in (
            *([usual] if usual not in ([], None) else []),
            *(option.choices if option.type == "choice" else ()),
        ):
            assert parse_options(options, needed | {option.name: value})
            assert check.is_valid(needed | {option.name: value}), (option.name, value)
        for value in _wrong(option):
            with pytest.raises(InvalidOption):
                parse_options(options, needed | {option.name: value})
            assert not check.is_valid(needed | {option.name: value}), (option.name, value)
