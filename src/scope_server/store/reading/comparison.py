"""Translates one comparison of a filter into SQL. Its result is true, false, or null if the compared value is null."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from scope_catalogue.condition import IsNull, Matches, OneOf, Ordered, Value
from scope_server.store.schema.columns import Kind

_SIGN = 1 << 63


@dataclass(frozen=True)
class Expression:
    """An SQL expression that is compared: its text, its SQL type, and how it encodes the column's value."""

    text: sql.Composable
    type: str
    kind: Kind = Kind.PLAIN


def compared(comparison: OneOf | Ordered | Matches | IsNull, of: Expression) -> sql.Composed:
    """The comparison, with the expression in place of the column."""
    text = sql.SQL("NULLIF({}, 'NaN')").format(of.text) if of.type in ("real", "double precision") else of.text
    match comparison:
        case IsNull():
            return sql.SQL("({} IS NULL)").format(text)
        case Matches(_, pattern):
            return sql.SQL("({} LIKE {})").format(text, sql.Literal(pattern))
        case OneOf(_, values):
            stored = [_stored(value, of.kind) for value in values]
            return one_of(text, stored, of.type)
        case Ordered(_, operator, value):
            if of.kind is Kind.UNSIGNED:
                return _unsigned(text, operator, int(value))
            bound = sql.SQL("CAST({} AS {})").format(sql.Literal(value), sql.SQL(_wide(of.type)))
            return sql.SQL("({} {} {})").format(text, sql.SQL(operator), bound)


def one_of(text: sql.Composable, values: Sequence[Value], type_: str) -> sql.Composed:
    """SQL that is true if an expression of this type is one of the values. There may be no values."""
    if not values:
        return sql.SQL("({} IS NULL AND NULL)").format(text)  # with an empty array, `= ANY` is false for null too
    if len(values) == 1:
        return sql.SQL("({} = CAST({} AS {}))").format(text, sql.Literal(values[0]), sql.SQL(type_))  # takes less time
    return sql.SQL("({} = ANY({}::{}[]))").format(text, sql.Literal(list(values)), sql.SQL(type_))


def _stored(value: Value, kind: Kind) -> Value:
    return value - 2 * _SIGN if kind is Kind.UNSIGNED and isinstance(value, int) and value >= _SIGN else value


def _unsigned(text: sql.Composable, operator: str, value: int) -> sql.Composed:
    # Numbers from 2**63 on are stored as negative numbers, in the same order, and are larger than all others.
    forms = {
        ("<=", False): "({n} BETWEEN 0 AND {v})",
        ("<=", True): "({n} >= 0 OR {n} <= {v})",
        (">=", False): "({n} >= {v} OR {n} < 0)",
        (">=", True): "({n} >= {v} AND {n} < 0)",
    }
    stored = sql.Literal(_stored(value, Kind.UNSIGNED))
    return sql.SQL(forms[operator, value >= _SIGN]).format(n=text, v=stored)


def _wide(type_: str) -> str:
    return "double precision" if type_ == "real" else type_
