"""Standard output for tables of rich, which wraps texts to its width."""

import os
import sys

from rich.console import Console

_WIDTH_OF_A_FILE = 10_000  # nothing is wrapped


def console() -> Console:
    """As wide as the terminal, or as COLUMNS says; a pipe or a file has no width that rows must fit into."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if has_width else Console(width=_WIDTH_OF_A_FILE)
