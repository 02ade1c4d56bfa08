"""Flame graphs of what was recorded."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, create_model

from scope_catalogue.nearest import unknown
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.during import DuringQuery, with_times
from scope_server.api.resources.streams import StreamPath, stream_named, title
from scope_server.api.resources.window import others, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Text
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, OfStream, Routes, always
from scope_server.errors import InvalidQuery
from scope_server.store.answers.during import samples_during, stacks_of_threads
from scope_server.store.answers.lasting import lasting_or_refused
from scope_server.store.answers.sample import Sample
from scope_server.store.answers.stacks import COUNT, Added, Drawn, add_up, drawn, measured_columns
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.flames.arrow import columns, ipc
from scope_views.flames.pprof import pprof
from scope_views.flames.speedscope import speedscope
from scope_views.flames.stacks import Stacks
from scope_views.flames.svg import picture
from scope_views.flames.text import folded_lines
from scope_views.printable import printable

ROUTES = Routes()

Format = Literal["arrow", "folded", "svg", "pprof", "speedscope"]
_TYPES: dict[Format, str] = {
    "arrow": "application/vnd.apache.arrow.stream",
    "folded": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "pprof": "application/vnd.google.pprof+gzip",
    "speedscope": "application/json",
}
_FORMAT = "arrow: columns of frames; folded: text; svg: a picture; pprof and speedscope: files for these programs"
_OF = (
    "another stream, such as syscall or llama_token: the graph has the samples that were taken while its rows lasted, "
    "in their threads or, if a row is about a process, in all threads of it. Filters and task choose these rows"
)
_MICROSECOND = timedelta(microseconds=1)


class FlamegraphQuery(DuringQuery):
    """Which rows, and how they are drawn. With a second window or filter, the graph shows the difference."""

    column: Annotated[str, Field(description="the column of stacks; default: the first")] | None = None
    by: Annotated[str, Field(description="what is added up: `count`, or a column with a unit")] | None = None
    format: Annotated[Format, Field(description=_FORMAT)] = "arrow"
    of: Annotated[str, Field(description=_OF)] | None = None


class Flamegraph(Text):
    """A flame graph.

    The answer's headers, and the metadata of Arrow's schema, say how much was read: `X-Scope-Complete` is `true`, or
    how many of how many rows.
    """

    MEDIA = tuple(each.partition(";")[0] for each in _TYPES.values())


def _of_stream(table: StreamTable) -> OfStream | None:
    if not any(column.stack for column in table.described.columns):
        return None
    named = ", ".join((COUNT, *measured_columns(table)))
    by = Annotated[str, Field(description=f"what is added up: {named}")] | None
    query = create_model(title(table, "FlamegraphQuery"), __base__=FlamegraphQuery, by=(by, None))
    return OfStream(f"A flame graph of {table.name}: {table.meaning}", Flamegraph, query)


@ROUTES.get(f"{PREFIX}/flamegraph/{{stream}}", Role.VIEWER, lags=always, rate=WORK, of_stream=_of_stream)
async def get_flamegraph(call: Call, path: StreamPath, query: FlamegraphQuery) -> Flamegraph:
    """A flame graph of a stream's rows that have stacks; with a second window or filter, of the difference.

    With `of`, a sample counts if its thread was in a row of that stream at the sample's time; one that was in rows of
    both sides is inside. At most two million rows are read of a side; of more, blocks that are evenly chosen.
    `complete` says so.
    """
    table, query = stream_named(call, path), await with_times(call, query)
    how = drawn(table, query.column, query.by)
    of = _chooser(call, table, query.of) if query.of else table
    inside = await selection_of(call, of, query)
    sides = [inside, others(inside, query)] if query.has_others else [inside]
    chosen: Sequence[Sample] = ()
    async with call[DATABASE].snapshot() as connection:
        drawn_sides: Sequence[Selection] = sides
        if query.of:
            drawn_sides, chosen = await samples_during(connection, table, sides, lasting_or_refused(of, "of"))
        added = [await add_up(connection, each, how) for each in drawn_sides]
    told = {"samples": str(added[0].samples), "complete": _complete(added, chosen)}
    if len(added) > 1:
        told["other_samples"] = str(added[1].samples)
    content = await asyncio.to_thread(_written, query.format, added, how, replace(inside, table=table), told)
    return Flamegraph(content=content, content_type=_TYPES[query.format], headers=_headers(told))


def _chooser(call: Call, table: StreamTable, name: str) -> StreamTable:
    """The stream whose rows choose samples.

    Raises:
        InvalidQuery: there is no such stream, or what is drawn are not samples of threads.
    """
    tables = call[TABLES]
    if name not in tables:
        raise InvalidQuery(f"there is {unknown('stream', name, sorted(tables))}", parameter="of")
    if stacks_of_threads(table) is None:
        raise InvalidQuery(f"rows of {table.name} are no samples of threads; those of profile are", parameter="of")
    return tables[name]


def _complete(added: Sequence[Added], chosen: Sequence[Sample]) -> str:
    """`true`, or how much was read of each side: of samples, and before them of the rows that chose them."""
    if all(each.part.complete for each in added) and all(each.rows.num_rows == each.estimate for each in chosen):
        return "true"
    of_rows = [f"{each.rows.num_rows} of {each.estimate} rows" for each in chosen]
    return ", ".join([*of_rows, *(f"{each.part.read} of {each.part.rows} rows" for each in added)])


def _headers(told: Mapping[str, str]) -> dict[str, str]:
    return {f"X-Scope-{name.replace('_', '-').title()}": value for name, value in told.items()}


def _written(format_: Format, added: Sequence[Added], how: Drawn, inside: Selection, told: Mapping[str, str]) -> bytes:
    table, stacks = inside.table, Stacks(len(added))
    for side, each in enumerate(added):
        each.add_to(stacks, side)
    part = "" if told["complete"] == "true" else f" ({told['complete']})"
    tree = stacks.tree(printable(f"{how.flame.title or table.meaning}{part}"), how.unit)
    match format_:
        case "arrow":
            return ipc(columns(tree, {"stream": table.name, "column": how.column, "by": how.weight or COUNT, **told}))
        case "folded":
            return "".join(folded_lines({table.name: tree})).encode()
        case "svg":
            return picture([tree]).encode()
        case "speedscope":
            return speedscope(tree)
        case "pprof":
            assert inside.since and inside.until  # as `selection_of` makes it
            begin, length = inside.since.timestamp(), (inside.until - inside.since) // _MICROSECOND
            return pprof(tree, int(begin * 1e6) * 1000, length * 1000)
