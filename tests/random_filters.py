"""Random filters, each with its meaning in plain Python, and rows to test them on."""

import fnmatch
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Meaning = Callable[[Row], bool | None]  # None: unknown, as for a null

SCHEMA = pa.schema(
    [
        ("small", pa.int8()),
        ("word32", pa.uint32()),
        ("signed", pa.int64()),
        ("unsigned", pa.uint64()),
        ("fraction", pa.float64()),
        ("flag", pa.bool_()),
        ("comm", pa.dictionary(pa.int32(), pa.string())),
        ("path", pa.string()),
    ]
)
_VALUES: dict[str, list[Any]] = {
    "small": [-128, -7, -1, 0, 1, 5, 127],
    "word32": [0, 1, 5, 1 << 31, (1 << 32) - 1],
    "signed": [-(1 << 63), -(1 << 40), -1, 0, 1, 1 << 40, (1 << 63) - 1],
    "unsigned": [0, 1, 5, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1],
    "fraction": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e300, math.inf, math.nan],
    "flag": [True, False],
    "comm": [
        "git",
        "",
        "a b",
        "it's",
        'say "no"',
        "50%",
        "a_b",
        "axb",
        "back\\slash",
        "two\nlines",
        "naïve",
        "*",
        "null",
    ],
    "path": [
        "/etc/passwd",
        "/etc/",
        "/etc",
        "/ETC/x",
        "100%",
        "a_b",
        "axb",
        "c:\\dir",
        "'",
        '"',
        "'; DROP TABLE x; --",
        "日本",
    ],
}
_PATTERNS = [
    "*",
    "",
    "/etc/*",
    "*_b",
    "a?b",
    "50%",
    "*%",
    "back\\slash",
    "c:\\\\dir",
    "\\*",
    "?",
    "*'*",
    "na?ve",
    "two*",
    "%",
    "*日*",
]
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NUMBERS = [
    0,
    1,
    5,
    -1,
    1.5,
    -2.5,
    127,
    128,
    -129,
    1 << 31,
    1 << 32,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
]
_NUMBERS += [-(1 << 63), -(1 << 63) - 1, 0.1, 2.5]


@dataclass(frozen=True)
class RandomFilter:
    """A filter as text, and a function that says which rows it takes."""

    text: str
    meaning: Meaning

    def takes(self, row: Row) -> bool:
        """Whether the filter takes the row."""
        return self.meaning(row) is True


def random_rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Random rows of ordinary and extreme values; one in five values is null."""
    return [
        {name: None if chance.random() < 0.2 else chance.choice(values) for name, values in _VALUES.items()}
        for _ in range(count)
    ]


def every_comparison() -> list[RandomFilter]:
    """Each operator with each column and each value that the operator accepts."""
    return [one for column, values in _VALUES.items() for one in comparisons(column, values)]


def comparisons(column: str, known: list[Any]) -> list[RandomFilter]:
    """Each operator that the column accepts, with values that the column contains and with others."""
    found = [
        RandomFilter(f"{column} is null", lambda row: _value(row, column) is None),
        RandomFilter(f"{column} is not null", lambda row: _value(row, column) is not None),
    ]
    values = known
    if isinstance(known[-1], str):
        found += [_matched(column, sign, pattern) for sign in ("~", "!~") for pattern in _PATTERNS]
    elif not isinstance(known[-1], bool):
        values = _NUMBERS
        found += [_ordered(column, sign, value) for sign in _ORDERS for value in values]
    found += [_equal(column, sign, value) for sign in ("=", "==", "!=") for value in values]
    return found + [_within(column, negated, values[n : n + 3]) for negated in ("", "not ") for n in range(len(values))]


def random_filter(chance: random.Random, leaves: list[RandomFilter], depth: int = 3) -> RandomFilter:
    """A random filter: comparisons joined by and, or and not."""
    kind = chance.choice(("and", "or", "not", "leaf")) if depth else "leaf"
    if kind == "leaf":
        return chance.choice(leaves)
    parts = [random_filter(chance, leaves, depth - 1) for _ in range(1 if kind == "not" else chance.randint(2, 3))]
    if kind == "not":
        return RandomFilter(f"not ({parts[0].text})", lambda row: _negated(parts[0].meaning(row)))
    # One part with this value decides the result. If none has it, a null makes the result unknown.
    decisive = kind == "or"

    def joined(row: Row) -> bool | None:
        found = [part.meaning(row) for part in parts]
        return decisive if decisive in found else None if None in found else not decisive

    return RandomFilter(
        f" {kind.upper() if chance.random() < 0.1 else kind} ".join(f"({part.text})" for part in parts), joined
    )


def _value(row: Row, column: str) -> Any:
    value = row[column]
    return None if isinstance(value, float) and math.isnan(value) else value


def _negated(found: bool | None) -> bool | None:
    return None if found is None else not found


def _leaf(text: str, column: str, test: Callable[[Any], bool], negated: bool = False) -> RandomFilter:
    def meaning(row: Row) -> bool | None:
        value = _value(row, column)
        return None if value is None else test(value) != negated

    return RandomFilter(text, meaning)


def _equal(column: str, sign: str, value: Any) -> RandomFilter:
    return _leaf(f"{column} {sign} {_literal(value)}", column, lambda found: found == value, sign == "!=")


def _within(column: str, negated: str, values: list[Any]) -> RandomFilter:
    literals = ", ".join(map(_literal, values))
    return _leaf(f"{column} {negated}in ({literals})", column, lambda found: found in values, bool(negated))


def _ordered(column: str, sign: str, value: Any) -> RandomFilter:
    return _leaf(f"{column} {sign} {_literal(value)}", column, lambda found: _ORDERS[sign](found, value))


def _matched(column: str, sign: str, pattern: str) -> RandomFilter:
    # In fnmatch, a bracket is a wildcard; in a filter, only * and ? are.
    plain = pattern.replace("\\\\", "\\").replace("\\*", "[*]")
    expression = re.compile(fnmatch.translate(plain).replace("\\Z", r"\Z"), re.S)
    return _leaf(
        f"{column} {sign} {_literal(pattern)}", column, lambda found: bool(expression.match(found)), sign == "!~"
    )


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        quote = '"' if "'" in value and '"' not in value else "'"
        return f"{quote}{value.replace(quote, 2 * quote)}{quote}"
    return str(value)
