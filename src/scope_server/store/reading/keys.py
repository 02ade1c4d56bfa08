"""Looks up the keys of the entries of dimensions that meet a filter's comparisons.

Rows refer to entries by key, and each block lists the keys that its rows have.
"""

from collections.abc import Iterator, Mapping, Sequence

from psycopg import sql

from scope_catalogue.condition import And, Condition, IsNull, Matches, Not, OneOf, Or, Ordered
from scope_server.store.reading.comparison import Expression, compared
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import OF_PROCESS, Kind, StreamTable

Comparison = OneOf | Ordered | Matches | IsNull
Keys = Mapping[Comparison, Sequence[int]]

_MOST = 5000  # keys per comparison; if there are more, the text is looked up for each row instead
# In rows that belong to no process, all are null. `p` is store.processes.
SHOWN = {
    **{name: Expression(sql.SQL(text), "text") for name, text in OF_PROCESS.items()},
    "pid": Expression(sql.SQL("NULLIF(p.pid, 0)"), "bigint"),
    "start_ns": Expression(sql.SQL("CASE WHEN p.pid <> 0 THEN p.start_ns END"), "bigint", Kind.UNSIGNED),
}


async def find_keys(connection: Connection, wanted: Selection) -> Keys:
    """The keys that meet each comparison of a selection's filter.

    Comparisons of other columns, and comparisons that too many keys meet, are missing in the result.
    """
    found: dict[Comparison, Sequence[int]] = {}
    for comparison, negated in _comparisons(wanted.where) if wanted.where else ():
        query = _query(wanted.table, comparison, negated, wanted.machines)
        if query and comparison not in found:
            limited = sql.SQL("{} LIMIT {}").format(query, sql.Literal(_MOST + 1))
            keys = [row["id"] for row in await (await connection.execute(limited)).fetchall()]
            if len(keys) <= _MOST:
                found[comparison] = keys
    return found


def _comparisons(condition: Condition, negated: bool = False) -> Iterator[tuple[Comparison, bool]]:
    match condition:
        case Not(term):
            yield from _comparisons(term, not negated)
        case And(terms) | Or(terms):
            for term in terms:
                yield from _comparisons(term, negated)
        case _:
            yield condition, negated


def _query(
    table: StreamTable, comparison: Comparison, negated: bool, machines: Sequence[int] | None
) -> sql.Composed | None:
    if table.is_of_process(comparison.column):
        # Nearly all processes meet a negated comparison.
        return None if negated else _processes(comparison, machines)
    column = table.column(comparison.column)
    if column is None or column.dimension is None or isinstance(comparison, IsNull):
        return None
    stored = sql.Identifier("store", column.dimension.table)
    if isinstance(comparison, OneOf):
        digests = sql.Literal([column.dimension.digest(str(value)) for value in comparison.values])
        return sql.SQL("SELECT id FROM {} WHERE digest = ANY({}::bytea[])").format(stored, digests)
    text = sql.SQL(column.dimension.text)
    return sql.SQL("SELECT t.id FROM {} AS t WHERE {}").format(stored, compared(comparison, Expression(text, "text")))


def _processes(comparison: Comparison, machines: Sequence[int] | None) -> sql.Composed:
    met = compared(comparison, SHOWN[comparison.column])
    if comparison.column == "pid" and isinstance(comparison, OneOf):  # so that the index on pid is used
        met = sql.SQL("p.pid <> 0 AND {}").format(compared(comparison, Expression(sql.SQL("p.pid"), "bigint")))
    of = sql.SQL("") if machines is None else sql.SQL("p.machine = ANY({}) AND ").format(sql.Literal(list(machines)))
    return sql.SQL("SELECT p.id FROM store.processes AS p WHERE {}{}").format(of, met)
