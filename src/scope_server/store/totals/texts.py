"""Texts for the keys of groups."""

from collections.abc import Iterable, Sequence
from typing import Any

from scope_server.store.reading.database import Connection
from scope_server.store.schema.columns import Kind
from scope_server.store.totals.question import MACHINE, Question

_MACHINES = "SELECT id, machine_id, hostname FROM store.machines WHERE id = ANY(%s::bigint[])"

Key = tuple[Any, ...]


async def shown(connection: Connection, question: Question, keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
    """Each key as a group's columns, of JSON's types; `machine_id` and `hostname` for a machine."""
    wanted = list(dict.fromkeys(keys))
    columns = [await _column(connection, question, number, wanted) for number in range(len(question.by))]
    return {
        key: {name: value for column in columns for name, value in column[place].items()}
        for place, key in enumerate(wanted)
    }


async def _column(connection: Connection, question: Question, number: int, keys: Sequence[Key]) -> list[dict[str, Any]]:
    name, values = question.by[number], [key[number] for key in keys]
    column = question.table.column(name)
    if column is None and name == MACHINE:
        found = await (await connection.execute(_MACHINES, [list(set(values))])).fetchall()
        machines = {row["id"]: {"machine_id": row["machine_id"], "hostname": row["hostname"]} for row in found}
        return [machines.get(value, {"machine_id": None, "hostname": None}) for value in values]
    if column and column.dimension:
        asked = column.dimension.texts("%s::bigint[]")
        ids = [value for value in set(values) if value]
        texts = {row["id"]: row["text"] for row in await (await connection.execute(asked, [ids])).fetchall()}
        return [{name: texts.get(value)} for value in values]
    is_unsigned = name == "start_ns" or (column is not None and column.kind is Kind.UNSIGNED)
    return [{name: value + (1 << 64) if is_unsigned and value is not None and value < 0 else value} for value in values]
