"""Conditions on rows, as a tree: the meaning of a filter, after it was checked against the columns of a stream.

As in SQL, a comparison with null is neither true nor false, and so is its negation. NaN counts as null. Every value has
the type of its column and lies within the column's range.
"""

from dataclasses import dataclass

Value = str | int | float | bool


@dataclass(frozen=True)
class OneOf:
    """True if the column equals one of the values. There may be no values: then no row matches."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Ordered:
    """The column compared with a number.

    Attributes:
        operator: `<=` or `>=`; for columns of floating-point numbers also `<` and `>`.
    """

    column: str
    operator: str
    value: int | float


@dataclass(frozen=True)
class Matches:
    """True if the whole text of the column matches a pattern.

    Attributes:
        pattern: for SQL's LIKE: `%` for any characters, `_` for one; a backslash escapes the next character.
    """

    column: str
    pattern: str


@dataclass(frozen=True)
class IsNull:
    """True if the column is null."""

    column: str


@dataclass(frozen=True)
class Not:
    """True if the term is false; null if the term is null."""

    term: "Condition"


@dataclass(frozen=True)
class And:
    """True if all terms are true."""

    terms: tuple["Condition", ...]


@dataclass(frozen=True)
class Or:
    """True if at least one term is true."""

    terms: tuple["Condition", ...]


Condition = OneOf | Ordered | Matches | IsNull | Not | And | Or


def columns_read(condition: Condition) -> frozenset[str]:
    """The columns that a condition reads."""
    match condition:
        case Not(term):
            return columns_read(term)
        case And(terms) | Or(terms):
            return frozenset().union(*map(columns_read, terms))
        case _:
            return frozenset((condition.column,))
