"""Translates a filter into SQL conditions: on rows, and on the blocks that can have such rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import sql

from scope_catalogue.condition import And, Condition, IsNull, Not, Or
from scope_server.store.dimensions.declared import PROCESSES
from scope_server.store.reading.comparison import Expression, compared, one_of
from scope_server.store.reading.database import Connection
from scope_server.store.reading.keys import SHOWN, Comparison, Keys, find_keys
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import Kind, StreamTable


@dataclass
class Conditions:
    """SQL conditions that all have to hold.

    Attributes:
        rows: on rows, which are called `r`.
        blocks: on blocks; a block that does not meet them has no such row.
    """

    rows: list[sql.Composable] = field(default_factory=list)
    blocks: list[sql.Composable] = field(default_factory=list)


async def conditions(connection: Connection, wanted: Selection) -> Conditions:
    """The conditions for rows of a selection, except for its times.

    Raises:
        psycopg.Error: the lookup of keys failed.
    """
    found = Conditions()
    if wanted.machines is not None:
        found.rows.append(sql.SQL("machine = ANY({})").format(array(wanted.machines)))
        found.blocks += _known(wanted.table.layout.holding("machines", wanted.machines))
    if wanted.task is not None:
        found.rows.append(_recorded_by(wanted, wanted.task))
    if wanted.where:
        compiled = _Compiled(wanted.table, await find_keys(connection, wanted))
        found.rows.append(compiled.rows(wanted.where))
        if blocks := compiled.blocks(wanted.where):
            found.blocks.append(blocks)
    return found


def _recorded_by(wanted: Selection, task: int) -> sql.Composed:
    times = [
        sql.SQL(" AND {} {}").format(sql.SQL(f"b.{column} {sign}"), sql.Literal(time))
        for column, sign, time in (("last_time", ">=", wanted.since), ("first_time", "<", wanted.until))
        if time
    ]
    # IS TRUE keeps it a look-up in a hash table. PostgreSQL expects few rows of a block's arrays, and might join all of
    # them with each batch.
    return sql.SQL(
        "(batch IN (SELECT b.id FROM store.batches AS b JOIN store.runs AS u ON u.id = b.run"
        " WHERE b.stream = {} AND u.task = {}{})) IS TRUE"
    ).format(sql.Literal(wanted.table.name), sql.Literal(task), sql.Composed(times))


def of_numbers(table: StreamTable, condition: Condition) -> sql.Composable:
    """The condition on rows of a filter that compares no texts."""
    return _Compiled(table, {}).rows(condition)


def array(keys: Sequence[int]) -> sql.Composed:
    """Keys as an array of bigint; with a narrower type PostgreSQL would not use the index."""
    return sql.SQL("{}::bigint[]").format(sql.Literal(f"{{{','.join(map(str, keys))}}}"))


class _Compiled:
    """A condition as SQL. `not` is moved down to the comparisons: above them, null and false mean the same."""

    def __init__(self, table: StreamTable, keys: Keys) -> None:
        self._table = table
        self._keys = keys

    def rows(self, condition: Condition, negated: bool = False) -> sql.Composable:
        match condition:
            case Not(term):
                return self.rows(term, not negated)
            case And(terms) | Or(terms):
                word = _AND if isinstance(condition, And) != negated else _OR
                return sql.SQL("({})").format(word.join(self.rows(term, negated) for term in terms))
            case _:
                met = self._comparison(condition, negated)
                return sql.SQL("NOT {}").format(met) if negated else met

    def blocks(self, condition: Condition, negated: bool = False) -> sql.Composable | None:
        """What every block with such rows meets; None if nothing is known."""
        match condition:
            case Not(term):
                return self.blocks(term, not negated)
            case And(terms) | Or(terms):
                told = [self.blocks(term, negated) for term in terms]
                known = [each for each in told if each is not None]
                if isinstance(condition, And) != negated:
                    return sql.SQL("({})").format(_AND.join(known)) if known else None
                return sql.SQL("({})").format(_OR.join(known)) if len(known) == len(told) else None
            case _:
                if negated or condition not in self._keys:
                    return None
                column = self._table.column(condition.column)
                dimension = column.dimension if column and column.dimension else PROCESSES
                return self._table.layout.holding(dimension.held, self._keys[condition])

    def _comparison(self, comparison: Comparison, negated: bool) -> sql.Composed:
        keys = self._keys.get(comparison)
        if self._of_process(comparison):
            if keys is not None and not negated:
                return one_of(sql.SQL("r.process"), keys, "bigint")
            of = SHOWN[comparison.column]
            its = sql.SQL("(SELECT {} FROM store.processes AS p WHERE p.id = r.process)").format(of.text)
            return compared(comparison, Expression(its, of.type, of.kind))
        column, name = self._table.column(comparison.column), sql.Identifier("r", comparison.column)
        if column is None:  # ktime_ns, which is stored beside the stream's own columns
            return compared(comparison, Expression(name, "bigint", Kind.UNSIGNED))
        if column.dimension is None or isinstance(comparison, IsNull):
            return compared(comparison, Expression(name, column.sql, column.kind))
        if keys is not None:
            return one_of(name, keys, "bigint")
        return compared(comparison, Expression(column.dimension.text_at(name), "text"))

    def _of_process(self, comparison: Comparison) -> bool:
        return self._table.is_of_process(comparison.column)


_AND, _OR = sql.SQL(" AND "), sql.SQL(" OR ")


def _known(condition: sql.Composable | None) -> list[sql.Composable]:
    return [] if condition is None else [condition]
