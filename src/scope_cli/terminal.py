"""Standard output for tables of rich, which wraps texts to its width. Texts of other programs have no effect on it."""

import os
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scope_views.printable import printable

_WIDTH_OF_A_FILE = 10_000  # nothing is wrapped


def console() -> Console:
    """As wide as the terminal, or as COLUMNS says; a pipe or a file has no width that rows must fit into."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if has_width else Console(width=_WIDTH_OF_A_FILE)


def plain(text: str, style: str = "", **more: Any) -> Text:
    """A text as it is, without markup, on one line.

    Args:
        more: as `rich.text.Text` has it.
    """
    return Text(printable(text), style, **more)


class RowTable(Table):
    """A table without lines. Texts in headings and cells are `plain`."""

    def __init__(self, *headings: str, **more: Any) -> None:
        super().__init__(*headings, box=None, **more)

    def add_column(self, header: Any = "", *rest: Any, **more: Any) -> None:
        """Adds a column, whose heading is a text or what rich shows."""
        super().add_column(plain(header) if isinstance(header, str) else header, *rest, **more)

    def add_row(self, *cells: Any, **more: Any) -> None:
        """Adds a row of texts, or of what rich shows."""
        super().add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in cells), **more)
