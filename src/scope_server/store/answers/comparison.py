"""Two sides of a stream compared: samples are read, the columns that differ are found, and their values get texts."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from psycopg import sql

from scope_catalogue.condition import columns_read
from scope_catalogue.stream import OF_PROCESS as KNOWN_OF_PROCESS
from scope_server.errors import InvalidQuery
from scope_server.store.answers.during import sampled_streams
from scope_server.store.answers.lasting import lasting
from scope_server.store.answers.sample import BLOCK, Sample, sample
from scope_server.store.answers.slowest import shown_as
from scope_server.store.answers.texts import frames, texts_of
from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import array
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import IN_PROCESS, OF_PROCESS, StreamTable
from scope_views.chosen import Chosen
from scope_views.comparison.compare import Compared, Differing, Side, Value, compared
from scope_views.comparison.frames import DifferingFrame, differing_frames
from scope_views.comparison.longer import Longer, longer

MOST_ROWS = 20_000  # of each side that are compared

_NODE = Compared("node", "name of the machine")
_OF_PROCESS = {
    "exe": Compared("exe", "the program's file"),
    **{name: Compared(name, column.meaning) for name, column in KNOWN_OF_PROCESS.items()},
}
_MACHINES = sql.SQL("SELECT id, hostname FROM store.machines WHERE id = ANY({})")
_PROCESSES = sql.SQL(
    f"SELECT id, exe, {', '.join(f'{text} AS {name}' for name, text in OF_PROCESS.items())}"
    " FROM store.processes AS p WHERE id = ANY({})"
)


@dataclass(frozen=True)
class Comparison:
    """What differs.

    Attributes:
        columns: the most different first; values are texts.
        longer: what rows inside took longer for; None: they did not, or the parts of their duration are not declared.
        stacks: columns with stacks that rows of either side have.
        samples: without such columns, the streams with stacks that were sampled while rows inside lasted; None: rows
            do not last.
        frames: of each of these columns, the frames that differ most.
        texts: of these frames.
    """

    inside: Sample
    outside: Sample
    columns: Sequence[Differing]
    longer: Longer | None
    stacks: Sequence[str]
    samples: Sequence[str] | None
    frames: Mapping[str, Sequence[DifferingFrame]]
    texts: Mapping[int, str]


async def comparison(
    connection: Connection, inside: Selection, outside: Selection, tables: Iterable[StreamTable]
) -> Comparison:
    """Compares the rows of two selections of a stream. Call it in a transaction with one snapshot.

    Args:
        tables: of all streams; some may tell where threads were meanwhile.

    Raises:
        psycopg.Error: the database refused a query.
    """
    table = inside.table
    read = ["time", "ktime_ns", "machine", "process", *(one.name for one in table.columns if not one.is_list)]
    one = await sample(connection, inside, MOST_ROWS, read)
    other = await sample(connection, outside, MOST_ROWS, read)
    both = [await _with_dimensions(connection, table, each.rows) for each in (one, other)]
    named = {column for each in (inside, outside) if each.where for column in columns_read(each.where)}
    wanted = list(_compared(table, named))
    clusters = "" if one.whole and other.whole else BLOCK
    found = await asyncio.to_thread(compared, both[0], both[1], wanted, weight=table.rollup.count, clusters=clusters)
    stacked = [each.name for each in table.described.columns if each.stack]
    present = [name for name in stacked if any(rows[name].null_count < len(rows) for rows in both)]
    how = lasting(table)
    samples = await sampled_streams(connection, tables, one.rows, how) if how and not present else None
    took = await asyncio.to_thread(_longer, table, one.rows, other.rows)
    keys = {key for name in present for rows in both for key in rows[name].unique().to_pylist() if key is not None}
    of_stacks, texts = await frames(connection, keys)
    sides = Side(both[0], table.rollup.count, clusters), Side(both[1], table.rollup.count, clusters)
    its = {name: await asyncio.to_thread(differing_frames, name, of_stacks, sides) for name in present}
    shown = await _with_texts(connection, table, found)
    return Comparison(one, other, shown, took, present, samples, its, texts)


def _longer(table: StreamTable, inside: pa.Table, outside: pa.Table) -> Longer | None:
    try:
        how = shown_as(table)
    except InvalidQuery:
        return None
    # Names are keys here, with which no cause can be compared.
    keys = {one.name for one in table.columns if one.is_text}
    causes = {where: text for where, text in how.causes.items() if not keys & Chosen(table.described, where).columns}
    return longer(table.described, replace(how, causes=causes), inside, outside) if how.parts else None


def _compared(table: StreamTable, named: set[str]) -> Iterator[Compared]:
    """The columns that are compared: no ids and times, no stacks, none that the choice of rows names."""
    flags = {column.cut_if for column in table.described.columns}
    for column in table.described.columns:
        stored = table.column(column.name)
        if stored is None or stored.is_stack or stored.is_list:
            continue
        if column.identity or column.name in named or column.name in flags or column.name == table.rollup.count:
            continue
        yield Compared(column.name, column.meaning, bool(column.unit), column.hex)
    taken = table.described.by_name.keys() | named
    yield _NODE
    if table.of_processes and not named & {*IN_PROCESS}:
        yield from (each for name, each in _OF_PROCESS.items() if name not in taken)


async def _with_dimensions(connection: Connection, table: StreamTable, rows: pa.Table) -> pa.Table:
    """The rows with the columns of their machines and processes; keys of names in dictionaries."""
    for column in table.columns:
        if column.is_text:
            place = rows.schema.get_field_index(column.name)
            rows = rows.set_column(place, column.name, rows[column.name].dictionary_encode())
    machines = await _looked_up(connection, _MACHINES, rows["machine"])
    rows = rows.append_column("node", _mapped(rows["machine"], machines, "hostname"))
    if table.of_processes:
        processes = await _looked_up(connection, _PROCESSES, rows["process"])
        for name in _OF_PROCESS.keys() - table.described.by_name.keys():
            rows = rows.append_column(name, _mapped(rows["process"], processes, name))
    return rows


async def _looked_up(connection: Connection, query: sql.SQL, keys: pa.ChunkedArray) -> dict[int, Any]:
    found = await (await connection.execute(query.format(array(keys.unique().to_pylist())))).fetchall()
    return {row["id"]: row for row in found}


def _mapped(keys: pa.ChunkedArray, found: Mapping[int, Any], name: str) -> pa.Array:
    encoded = keys.combine_chunks().dictionary_encode()
    texts = [found.get(key, {}).get(name) for key in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


async def _with_texts(connection: Connection, table: StreamTable, found: Sequence[Differing]) -> list[Differing]:
    keyed = {column.name: column.dimension for column in table.columns if column.is_text}
    known: dict[int, str] = {}
    for each in found:
        if dimension := keyed.get(each.column.name):
            keys = (one.value for one in each.values if one.value is not None)
            known |= await texts_of(connection, dimension, keys)
    return [replace(each, values=[_shown(table, each, one, known) for one in each.values]) for each in found]


def _shown(table: StreamTable, of: Differing, one: Value, known: Mapping[int, str]) -> Value:
    if one.value is None:
        return one
    name = of.column.name
    stored, described = table.column(name), table.described.by_name.get(name)
    if stored is not None and stored.is_text:
        return replace(one, value=known.get(one.value))
    if described is not None and described.codes:
        return replace(one, value=described.codes.shown(int(one.value)))
    return replace(one, value=hex(one.value) if of.column.is_code and isinstance(one.value, int) else str(one.value))
