"""Everything that is printed: texts of other programs, such as names of files, have no effect on a terminal."""

import json
import sys
from typing import Any


def printable(text: str) -> str:
    """The text with every control character escaped (`\\x1b`, `\\n`, `\\u202e`): it takes one line and no effect."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """JSON with the same meaning, and every control character within its strings escaped. Lines stay lines."""
    odd = {each for each in set(text) if not each.isprintable() and each != "\n"}
    return text.translate({ord(each): _in_json(each) for each in odd}) if odd else text


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


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
