"""The table that holds the console's reading of filters to the grammar: Vitest goes through the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from scope_catalogue.codes import Codes
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.literal import column_type
from scope_catalogue.where import read_filter

CASES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "filter_cases.json").read_text())
COLUMNS = {
    column["name"]: column_type(
        column["type"], column.get("unit", ""), Codes[column["codes"]] if "codes" in column else None
    )
    for column in CASES["columns"]
}
OFFERS = [(case, offer) for case in CASES["completions"] if "then" in case for offer in case["offers"]]


@pytest.mark.parametrize("text", CASES["wholes"])
def test_whole_filters_are_read(text: str) -> None:
    """What the console takes for a whole filter is one."""
    read_filter(text, COLUMNS)


@pytest.mark.parametrize("case", CASES["faults"], ids=lambda case: case["text"] or "nothing")
def test_faults_are_where_the_console_sees_them(case: dict[str, Any]) -> None:
    """What the console does not take is refused, at the same character."""
    with pytest.raises(InvalidFilter) as caught:
        read_filter(case["text"], COLUMNS)
    assert caught.value.place == case["place"]


@pytest.mark.parametrize(("case", "offer"), OFFERS)
def test_what_the_console_offers_may_come_there(case: dict[str, Any], offer: str) -> None:
    """A filter that goes on with it can be read."""
    read_filter(f"{case['before']}{offer} {case['then']}", COLUMNS)
