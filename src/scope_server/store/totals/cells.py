"""What is computed of a group, such as `count, p99(duration_ns)`: the words of the catalogue's tables, as text.

    cells = cell { "," cell }
    cell  = "count" | "failed" | "rate" | "rate(" AMOUNT "," DURATION ")" | WORD "(" COLUMN ")"
    WORD  = "sum" | "mean" | "min" | "max" | "p" PERCENT        such as p50, p99 or p99.9

`rate` is events a second; `rate(AMOUNT, DURATION)` is one sum over another, a second. Percentiles of a histogram's
column are those of what it counts.
"""

import re
from dataclasses import dataclass
from typing import Literal

from scope_catalogue.nearest import unknown
from scope_server.errors import InvalidQuery
from scope_server.store.schema.columns import WHOLE, Kind, StreamTable

MOST = 20
_CELL = re.compile(r"\s*([a-z]+)([0-9.]*)\s*(?:\(\s*([a-z0-9_]+)\s*(?:,\s*([a-z0-9_]+)\s*)?\))?\s*")
_WORDS = ("count", "failed", "rate", "sum", "mean", "min", "max", "p50", "p99")

Word = Literal["count", "failed", "rate", "sum", "mean", "min", "max", "p"]


@dataclass(frozen=True)
class Cell:
    """A value of a group.

    Attributes:
        text: as answers name it.
        column: what is summed or compared, if anything is.
        over: of a rate: the column with the ns that it is divided by.
        share: of a percentile: 0.99 for p99.
    """

    text: str
    word: Word
    column: str = ""
    over: str = ""
    share: float = 0.0


def read_cells(text: str, table: StreamTable) -> tuple[Cell, ...]:
    """The cells in a text.

    Raises:
        InvalidQuery: one is unknown, or not possible with the stream's columns.
    """
    found: dict[str, Cell] = {}
    place = 0
    while place <= len(text):
        matched = _CELL.match(text, place)
        end = matched.end() if matched else place
        if matched is None or text[end : end + 1] not in ("", ","):
            raise _wrong(f"character {place + 1}: a cell is missing, such as count, sum(COLUMN) or p99(COLUMN)")
        cell = _cell(table, *matched.groups())
        found[cell.text] = cell
        place = end + 1
    if len(found) > MOST:
        raise _wrong(f"{len(found)} cells are too many; the maximum is {MOST}")
    return tuple(found.values())


def _cell(table: StreamTable, word: str, digits: str, column: str | None, over: str | None) -> Cell:
    name = f"{word}{digits}"
    if name == "rate" and column and over:
        return Cell(f"rate({column},{over})", "rate", number_column(table, column), number_column(table, over))
    if name in ("count", "failed", "rate"):
        if column:
            raise _wrong(f"{name} takes no column" if name != "rate" else "rate takes no column, or two")
        if name == "failed" and not table.failures:
            raise _wrong(f"nothing says which rows of {table.name} failed")
        return Cell(name, name)  # type: ignore[arg-type]  # one of these words
    share = _share(digits) if word == "p" else None
    if share is None and name not in _WORDS:
        raise _wrong(unknown("cell", name, _WORDS))
    if not column or over:
        raise _wrong(f"{name} takes one column: {name}(COLUMN)")
    told = f"{name}({column})"
    if share is not None:
        return Cell(told, "p", histogram_of(table, column) or number_column(table, column), share=share)
    return Cell(told, word, number_column(table, column))  # type: ignore[arg-type]  # one of _WORDS


def histogram_of(table: StreamTable, column: str) -> str:
    """The column with the histogram of what a column measures, by powers of two; empty if there is none."""
    rollup = table.rollup
    return rollup.histogram if rollup.histogram and column in (rollup.measured, rollup.histogram) else ""


def _share(digits: str) -> float | None:
    try:
        percent = float(digits)
    except ValueError:
        return None
    return percent / 100 if 0 < percent < 100 else None


def number_column(table: StreamTable, name: str, parameter: str = "cells") -> str:
    """The name of a column, if it has numbers.

    Raises:
        InvalidQuery: it has none.
    """
    numbers = [
        one.name
        for one in table.columns
        if not one.dimension and (one.sql in WHOLE or one.sql in ("real", "double precision", "boolean"))
    ]
    if name in numbers:
        return name
    is_there = name in table.schema.names
    detail = f"{name} has no numbers to add up" if is_there else unknown("column", name, numbers)
    raise InvalidQuery(detail, parameter=parameter)


def is_whole(table: StreamTable, name: str) -> bool:
    """Whether a column has whole numbers."""
    column = table.column(name)
    return column is not None and (column.sql in WHOLE or column.kind is Kind.UNSIGNED)


def _wrong(detail: str) -> InvalidQuery:
    return InvalidQuery(detail, parameter="cells")
