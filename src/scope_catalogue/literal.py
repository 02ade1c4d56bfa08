"""Literals in filters: numbers, durations, sizes and names of numbers, converted without rounding.

A duration such as `1.5ms` is valid for columns in ns, a size such as `4KiB` for columns in bytes, a name such as
`-ENOENT` or `SIGKILL` for columns with codes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from scope_catalogue.codes import Codes

_NUMBER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)(.*)", re.S)
_LONGEST = 40  # characters of a number
_MICRO, _MU = "\u00b5s", "\u03bcs"  # two characters that look the same; keyboards have either
_DURATIONS = {
    "ns": 1,
    "us": 10**3,
    _MICRO: 10**3,
    _MU: 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SIZES = {"B": 1} | {
    spelling: 1 << (10 * power)
    for power, letter in enumerate("KMGT", start=1)
    for spelling in (letter, letter.lower(), f"{letter}iB")
}
_SUFFIXES: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "ns": ("a duration", "1.5ms", _DURATIONS),
    "bytes": ("a size", "4KiB", _SIZES),
    "B/s": ("a size a second", "4MiB", _SIZES),
}


class Kind(StrEnum):
    """The kind of values in a column, as messages call it."""

    TEXT = "a text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    TRUTH = "true or false"
    LIST = "a list"


_WHOLE = re.compile(r"(u?)int(8|16|32|64)")
_KINDS = {
    "string": Kind.TEXT,
    "bool": Kind.TRUTH,
    **dict.fromkeys(("halffloat", "float", "double"), Kind.NUMBER),
}


@dataclass(frozen=True)
class ColumnType:
    """What the filter grammar needs to know about a column.

    Attributes:
        unit: of the catalogue, such as ns; empty if the column has none.
        least, most: smallest and largest whole number that the column can hold.
        codes: the names that the column's numbers have.
    """

    kind: Kind
    unit: str = ""
    least: int = -(1 << 63)
    most: int = (1 << 63) - 1
    codes: Codes | None = None


def column_type(arrow: object, unit: str = "", codes: Codes | None = None) -> ColumnType:
    """The type of an Arrow column. Every type that is not text, number or boolean counts as a list.

    Args:
        arrow: the type, or Arrow's name of it.
    """
    name = str(arrow)
    if name.startswith("dictionary<"):
        name = name.removeprefix("dictionary<values=").partition(",")[0]
    if whole := _WHOLE.fullmatch(name):
        bits = int(whole[2])
        if whole[1]:
            return ColumnType(Kind.WHOLE, unit, 0, (1 << bits) - 1, codes)
        return ColumnType(Kind.WHOLE, unit, -(1 << bits - 1), (1 << bits - 1) - 1, codes)
    return ColumnType(_KINDS.get(name, Kind.LIST), unit)


def exact(word: str, type_: ColumnType) -> Fraction | None:
    """The number that a word stands for, in the column's unit; None if it is not such a number, or too long."""
    if type_.codes and word in type_.codes.numbers:
        return Fraction(type_.codes.numbers[word])
    found = _NUMBER.fullmatch(word) if len(word) <= _LONGEST else None
    if found is None:
        return None
    sign, digits, suffix = found.groups()
    number = Fraction(int(digits, 16)) if digits[:2] in ("0x", "0X") else Fraction(digits)
    if suffix:
        _, _, sizes = _SUFFIXES.get(type_.unit, ("", "", {}))
        if suffix not in sizes:
            return None
        number *= sizes[suffix]
    return -number if sign == "-" else number


def wanted(type_: ColumnType) -> str:
    """The values that a column can be compared with: `a whole number or a duration such as 1.5ms`."""
    if type_.unit in _SUFFIXES:
        name, example, _ = _SUFFIXES[type_.unit]
        return f"{type_.kind} or {name} such as {example}"
    if type_.codes:
        return f"{type_.kind} or a name such as {type_.codes.example}"
    return str(type_.kind)


def shortened(word: str) -> str:
    """A word in quotes for a message, shortened if it is long."""
    return f"'{word[:_LONGEST]}…'" if len(word) > _LONGEST else f"'{word}'"
