"""Conditions on rows, as a tree: what a filter says, checked against the columns of a stream.

Nulls are as in SQL: a comparison with null is neither true nor false, and `Not` keeps it so. A number that is not one
(NaN) counts as null. Values are of their column's type, and within its bounds.
"""

from dataclasses import dataclass

Value = str | int | float | bool


@dataclass(frozen=True)
class OneOf:
    """The column equals one of the values; without values it is false, or null where the column is."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Ordered:
    """The column compared with a number of its own type: `<=` or `>=`; of a column of fractions also `<` and `>`."""

    column: str
    operator: str
    value: int | float


@dataclass(frozen=True)
class Matches:
    """The column's text matches a pattern, all of it.

    Attributes:
        pattern: as SQL's LIKE takes it, with backslashes: `%` for any characters, `_` for one.
    """

    column: str
    pattern: str


@dataclass(frozen=True)
class IsNull:
    """The column is null."""

    column: str


@dataclass(frozen=True)
class Not:
    """The term is false."""

    term: "Condition"


@dataclass(frozen=True)
class And:
    """Each of the terms is true."""

    terms: tuple["Condition", ...]


@dataclass(frozen=True)
class Or:
    """One of the terms is true."""

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
