"""Every filter in docs/filters.md can be parsed."""

import re
from pathlib import Path

import pytest

from scope_catalogue.codes import Codes
from scope_catalogue.literal import ColumnType, Kind
from scope_catalogue.where import read_filter

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text()
ROWS = re.findall(r"^\| `(.+?)` \|", PAGE, re.MULTILINE)
IN_TEXT = re.findall(r"`([a-z_]+ [^`]*'[^`]*)`", PAGE)
NUMBERS = {"ret": "", "arg0": "", "pid": "", "duration_ns": "ns", "read_bytes": "bytes"}
COLUMNS = {name: ColumnType(Kind.WHOLE, unit) for name, unit in NUMBERS.items()} | {
    name: ColumnType(Kind.TEXT) for name in ("name", "path", "comm")
}
COLUMNS |= {"ret": ColumnType(Kind.WHOLE, codes=Codes.ERROR), "signal": ColumnType(Kind.WHOLE, codes=Codes.SIGNAL)}


@pytest.mark.parametrize("text", sorted({*ROWS, *IN_TEXT}))
def test_a_filter_of_the_page_is_read(text: str) -> None:
    """Each filter of the page is parsed without an error."""
    read_filter(text, COLUMNS)


def test_the_page_has_filters() -> None:
    """The page has filters in its table, and others in its text."""
    assert len(ROWS) > 7
    assert len(IN_TEXT) > len(set(IN_TEXT) & set(ROWS))
