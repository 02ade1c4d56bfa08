"""Tables as lines of text. Numbers and headings are never cut; where the width is short, texts are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from scope_views.printable import printable

GAP = 2  # blanks between columns
EXTRA = 100
_NARROWEST = 12  # of a text that is cut
_COMFORTABLE = 24  # texts are cut down to this before extra columns are left out
_WIDEST = 60  # of a text, where there is a width to fit into


class Part(Enum):
    """What a line of a table is."""

    HEADING = "heading"
    ROW = "row"
    TOTAL = "total"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        cells: one text a row.
        total: the cell of the last line; None in every column: there is no such line.
        number: aligned to the right and never cut.
        left_out: where the width is short, columns with a value above 0 are left out, the largest first; those with
            `EXTRA` and above before texts are cut to the utmost.
    """

    heading: str
    cells: Sequence[str]
    total: str | None = None
    number: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class Layout:
    """A table that fits.

    Attributes:
        lines: each with what it is.
        left_out: headings of the columns for which there was no room.
    """

    lines: list[tuple[Part, str]]
    left_out: list[str]


def laid_out(columns: Sequence[Column], width: int | None = None) -> Layout:
    """Lays a table out within a width; None: as wide as it is."""
    shown = [replace(column, cells=[printable(cell) for cell in column.cells]) for column in columns]
    headings = [column.heading for column in columns]
    widths = _widths(shown)
    if width is not None:
        _fitted(shown, width, _COMFORTABLE, EXTRA)
        widths = _fitted(shown, width, _NARROWEST, 1)
    lines = [(Part.HEADING, _line(shown, widths, [column.heading for column in shown]))]
    for cells in zip(*(column.cells for column in shown), strict=True):
        lines.append((Part.ROW, _line(shown, widths, cells)))
    if any(column.total is not None for column in shown):
        lines.append((Part.TOTAL, _line(shown, widths, [column.total or "" for column in shown])))
    return Layout(lines, [one for one in headings if one not in {column.heading for column in shown}])


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """A text of at most this width: of a path the end is kept, of others the beginning."""
    if width_of(text) <= width:
        return text
    from_end = text.startswith(("/", ".../"))  # or a path whose beginning is missing already
    text = text[-width:] if from_end else text[:width]  # no character takes less than a cell
    while width_of(text) >= width:
        text = text[1:] if from_end else text[:-1]
    return f"…{text}" if from_end else f"{text}…"


def _fitted(columns: list[Column], width: int, least: int, left_out: int) -> list[int]:
    """Narrows texts down to `least`, then takes columns out that may be: those with at least this `left_out`."""
    while True:
        widths = [
            natural if column.number else max(width_of(column.heading), min(natural, _WIDEST))
            for column, natural in zip(columns, _widths(columns), strict=True)
        ]
        _shrink(columns, widths, width, least)
        last = max(columns, key=lambda column: column.left_out)
        if _needed(widths) <= width or last.left_out < left_out:
            return widths
        columns.remove(last)


def _widths(columns: Sequence[Column]) -> list[int]:
    return [max(map(width_of, (column.heading, column.total or "", *column.cells))) for column in columns]


def _shrink(columns: Sequence[Column], widths: list[int], width: int, least: int) -> None:
    """Narrows texts, the widest first, until the table fits or all are at their least."""
    while (excess := _needed(widths) - width) > 0:
        wide = [
            (widths[index], index)
            for index, column in enumerate(columns)
            if not column.number and widths[index] > max(least, width_of(column.heading))
        ]
        if not wide:
            return
        widest, index = max(wide)
        next_widest = max((other for other, number in wide if number != index), default=0)
        floor = max(least, width_of(columns[index].heading))
        widths[index] = max(floor, widest - excess, min(next_widest, widest - 1))


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    padded = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        text = cell if column.number else cut(cell, width)
        blanks = " " * (width - width_of(text))
        padded.append(blanks + text if column.number else text + blanks)
    return (" " * GAP).join(padded).rstrip()
