"""Rows as files, however many they are."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field

from scope_catalogue.nearest import unknown
from scope_server.accounts.caller import Role
from scope_server.api.context import COLUMNS
from scope_server.api.resources.losses import lost_of
from scope_server.api.resources.streams import StreamPath, stream_named
from scope_server.api.resources.window import WindowQuery, selection_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Streamed
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.errors import InvalidQuery
from scope_server.store.reading.decoded import schema_of
from scope_server.store.schema.columns import StreamTable
from scope_views.files import FORMATS, MEDIA, Encoder, Format, losses

ROUTES = Routes()


class ExportQuery(WindowQuery):
    """Which rows, and how."""

    columns: Annotated[str, Field(description="their names, separated by commas; default: all")] | None = None
    format: Format = "ndjson"


class File(Streamed):
    """A file; the first column is `time`. In CSV, texts that spreadsheets take for formulas get an apostrophe."""

    MEDIA: ClassVar[tuple[str, ...]] = tuple(MEDIA.values())


@ROUTES.get(f"{PREFIX}/export/{{stream}}", Role.VIEWER, lags=always)
async def export_events(call: Call, path: StreamPath, query: ExportQuery) -> File:
    """Rows of a stream as a file, in order of time, each once: NDJSON, CSV, an Arrow IPC stream, or Parquet.

    Losses are told by the header `X-Scope-Lost`, such as `7 (ring_full); unknown (not_recorded)`; empty: nothing was
    lost. In files, they are at the end of NDJSON and, as `lost`, in the metadata of Arrow and Parquet; CSV has no place
    for them. If the database goes away meanwhile, the answer is broken off.
    """
    table = stream_named(call, path)
    wanted = await selection_of(call, table, query)
    schema = _chosen(table, query.columns)
    lost = await lost_of(call, wanted)
    encoder = FORMATS[query.format](table.described, schema, lost)
    return File(
        content_type=MEDIA[query.format],
        headers={"X-Scope-Lost": losses(lost)},
        filename=f"{table.name}.{query.format}",
        pieces=_pieces(call[COLUMNS].batches(wanted), encoder, schema.names),
    )


async def _pieces(
    batches: AsyncGenerator[pa.RecordBatch, None], encoder: Encoder, names: list[str]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        async for batch in batches:
            pieces = encoder.rows(batch.select(names))
            while piece := await asyncio.to_thread(next, pieces, b""):
                yield piece
    yield encoder.end()


def _chosen(table: StreamTable, columns: str | None) -> pa.Schema:
    """The schema of the rows with these columns, in this order, after `time`."""
    whole = schema_of(table)
    names = whole.names[1:] if columns is None else [name for name in columns.split(",") if name != whole.names[0]]
    if strange := [name for name in names if name not in whole.names]:
        raise InvalidQuery(unknown("column", strange[0], whole.names), parameter="columns")
    if len({*names}) < len(names):
        raise InvalidQuery("a column is given twice", parameter="columns")
    return pa.schema([whole.field(name) for name in (whole.names[0], *names)])
