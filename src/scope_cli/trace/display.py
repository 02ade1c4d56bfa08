"""Shows tables: redrawn in place while somebody can see them, and once more at the end."""

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from scope_cli.printable import print_line
from scope_cli.text_table import Part
from scope_cli.trace.tables import Wanted, table_lines
from scope_views.tables.tables import View

REDRAWS_PER_SECOND = 2
_STYLES = {Part.HEADING: "bold", Part.TOTAL: "bold"}


class Display:
    """The tables of some views on standard output.

    Args:
        headline: the line above them while they are redrawn.
        is_live: they are redrawn while the context is entered; otherwise nothing is shown before `show`.
    """

    def __init__(self, views: Sequence[View], wanted: Wanted, headline: Callable[[], str], is_live: bool) -> None:
        self._views, self._wanted, self._headline = views, wanted, headline
        self._live: Any = None
        if is_live:
            from rich.live import Live

            # Nothing of it stays: the last state follows in full.
            self._live = Live(
                get_renderable=self.screen, refresh_per_second=REDRAWS_PER_SECOND, transient=True, screen=False
            )

    def screen(self) -> Any:
        """What is shown while they are redrawn: what fits into the terminal."""
        from rich.console import Group

        from scope_cli.terminal import plain

        width, height = shutil.get_terminal_size()
        lines = [plain(self._headline()), *_styled(self._views, self._wanted, width, height - 1)]
        return Group(*lines[: height - 1])

    def __enter__(self) -> None:
        if self._live:
            self._live.start(refresh=True)

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self) -> None:
        """Prints the tables as they stand."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        for part, line in table_lines(self._views, self._wanted, width):
            print_line(line, bold=is_terminal and part in _STYLES)
        sys.stdout.flush()  # a closed pipe is noticed here


def _styled(views: Sequence[View], wanted: Wanted, width: int, height: int) -> list[Any]:
    from scope_cli.terminal import plain

    lines = table_lines(views, wanted, width, height)
    return [plain(line, _STYLES.get(part, "") if part else "", no_wrap=True) for part, line in lines]
