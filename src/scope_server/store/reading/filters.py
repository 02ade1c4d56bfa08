"""From filters, as people write them, to conditions on rows, and on the blocks that may have them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from scope_server.errors import InvalidQuery
from scope_server.store.reading.database import Database
from scope_server.store.schema.columns import IN_PROCESS, Kind, StoredColumn, StreamTable
from scope_server.store.writing.texts import digest_of

OPERATORS = {"eq": "=", "ne": "<>", "gte": ">=", "lte": "<="}
_WHOLE = ("bigint", "integer", "smallint")
_LOOKED_UP = {Kind.NAME: "find_name", Kind.STACK: "find_stack"}
_BIGINT = 1 << 63
_SHOWN = 60  # characters of what is quoted


@dataclass(frozen=True)
class Filter:
    """A condition on a column; the value is text, as it came."""

    column: str
    operator: str
    value: str


@dataclass
class Conditions:
    """What rows have to meet, and what blocks have to that can have such rows."""

    rows: list[sql.Composable] = field(default_factory=list)
    blocks: list[sql.Composable] = field(default_factory=list)

    def only_with(self, held: str, keys: Sequence[int]) -> None:
        """Leaves blocks that hold one of these keys."""
        self.blocks.append(sql.SQL("{} && {}").format(sql.Identifier(held), array(keys)))


async def conditions(
    database: Database, table: StreamTable, filters: Sequence[Filter], machines: Sequence[int] | None
) -> Conditions | None:
    """The conditions that filters on a stream make; None if no row can meet them.

    Raises:
        InvalidQuery: a filter names no column, or its value is none of the column's.
        StoreUnavailable: the database cannot be reached.
    """
    found = Conditions()
    if machines is not None:
        found.rows.append(sql.SQL("machine = ANY({})").format(array(machines)))
        found.only_with("machines", machines)
    of_process: dict[str, int] = {}
    for one in filters:
        if one.column in IN_PROCESS and table.of_processes:
            if one.operator != "eq":
                raise InvalidQuery(f"{one.column}: only equality can be asked for")
            of_process[one.column] = _integer(one)
            continue
        column = _column(table, one.column)
        if column.kind in _LOOKED_UP:
            if not await _of_text(database, column, one, found):
                return None
        else:
            found.rows.append(_compared(column, one))
    if of_process and not await _of_processes(database, of_process, machines, found):
        return None
    return found


def array(keys: Sequence[int]) -> sql.Composed:
    """Keys as PostgreSQL's array of bigint: of any narrower type it would use no index."""
    return sql.SQL("{}::bigint[]").format(sql.Literal(f"{{{','.join(map(str, keys))}}}"))


def _column(table: StreamTable, name: str) -> StoredColumn:
    column = table.column(name)
    if column is None and name == "ktime_ns":
        return StoredColumn("ktime_ns", None, "bigint", None)
    if column is None:
        of_all = IN_PROCESS if table.of_processes else ()
        names = ", ".join([*of_all, *(column.name for column in table.columns)])
        raise InvalidQuery(f"stream '{table.name}' has no column '{_quoted(name)}'; it has: {names}")
    return column


async def _of_text(database: Database, column: StoredColumn, one: Filter, found: Conditions) -> bool:
    if one.operator not in ("eq", "ne"):
        raise InvalidQuery(f"{one.column}: a text can be asked for, or all others (ne)")
    try:
        digest = digest_of(one.value)
    except UnicodeEncodeError:
        raise InvalidQuery(f"{one.column}: the value is no text in UTF-8") from None
    keys = [row["id"] for row in await database.fetch(_LOOKED_UP[column.kind], {"digest": digest})]
    name = sql.Identifier(column.name)
    if one.operator == "ne":
        found.rows.append(
            sql.SQL("{} <> {}").format(name, sql.Literal(keys[0])) if keys else sql.SQL("{} IS NOT NULL").format(name)
        )
        return True
    if keys:
        found.rows.append(sql.SQL("{} = {}").format(name, sql.Literal(keys[0])))
        found.only_with("names", keys)
    return bool(keys)


async def _of_processes(
    database: Database, wanted: dict[str, int], machines: Sequence[int] | None, found: Conditions
) -> bool:
    if any(abs(number) >= _BIGINT for number in wanted.values()):
        return False
    asked = {"pid": None, "start_ns": None, **wanted, "machines": None if machines is None else list(machines)}
    keys = [row["id"] for row in await database.fetch("find_processes", asked)]
    if keys:
        found.rows.append(sql.SQL("process = ANY({})").format(array(keys)))
        found.only_with("processes", keys)
    return bool(keys)


def _compared(column: StoredColumn, one: Filter) -> sql.Composed:
    name, operator = sql.Identifier(column.name), sql.SQL(OPERATORS[one.operator])
    if column.kind is Kind.UNSIGNED:
        return _compared_unsigned(name, one)
    return sql.SQL("{} {} {}").format(name, operator, sql.Literal(_value(column, one)))


def _compared_unsigned(name: sql.Identifier, one: Filter) -> sql.Composed:
    # From 2**63 on numbers are kept as negative ones, in order, above all others.
    number = _integer(one)
    if number < 0:  # below all that there are
        return sql.SQL("{} IS NOT NULL" if one.operator in ("ne", "gte") else "false AND {} IS NULL").format(name)
    kept = sql.Literal(number - (1 << 64) if number >= _BIGINT else number)
    if one.operator in ("eq", "ne"):
        return sql.SQL("{} {} {}").format(name, sql.SQL(OPERATORS[one.operator]), kept)
    signs = {("gte", False): "{n} >= {v} OR {n} < 0", ("gte", True): "{n} >= {v} AND {n} < 0"}
    signs |= {("lte", False): "{n} <= {v} AND {n} >= 0", ("lte", True): "{n} <= {v} OR {n} >= 0"}
    return sql.SQL(f"({signs[one.operator, number >= _BIGINT]})").format(n=name, v=kept)


def _value(column: StoredColumn, one: Filter) -> Any:
    if column.sql in _WHOLE:
        return _integer(one)
    if column.sql == "text":
        if "\0" in one.value or one.value.encode(errors="replace").decode() != one.value:
            raise InvalidQuery(f"{one.column}: the value is no text in UTF-8, or it has a NUL")
        return one.value
    raise InvalidQuery(f"{one.column}: a column of {column.sql} cannot be filtered by")


def _integer(one: Filter) -> int:
    digits = one.value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidQuery(f"{one.column}: '{_quoted(one.value)}' is not a whole number")
    if len(digits) > 20 or not -_BIGINT <= int(one.value) < 1 << 64:
        raise InvalidQuery(f"{one.column}: {_quoted(one.value)} has more than 64 bits")
    return int(one.value)


def _quoted(text: str) -> str:
    return f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text
