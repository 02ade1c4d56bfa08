"""Everything that is printed: texts of other programs, such as names of files, have no effect on a terminal."""

import json
import sys
from typing import Any

from scope_views.printable import printable, printable_json


def print_line(text: str, *, bold: bool = False) -> None:
    """Prints a line on standard output."""
    print(f"\x1b[1m{printable(text)}\x1b[0m" if bold else printable(text))


def print_remark(text: str) -> None:
    """Prints a line on standard error."""
    print(printable(text), file=sys.stderr)


def print_json(*values: Any, indent: int | None = 2) -> None:
    """Prints values as JSON on standard output, at once."""
    texts = (json.dumps(value, indent=indent, ensure_ascii=False) for value in values)
    if values:
        print("\n".join(map(printable_json, texts)), flush=True)
