"""Rows of any stream, stored in the test's database and asked of a server."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pyarrow as pa
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, STORED, Line, Run
from tests.integration.server.running import Server
from tests.integration.server.tables import TABLES

from scope_server.machine import Machine

BEGIN = datetime.fromtimestamp((BOOT_TO_UTC_NS + FIRST_KTIME_NS) / 1e9, UTC)
# Around everything that tests store.
WINDOW = {"since": (BEGIN - timedelta(minutes=1)).isoformat(), "until": (BEGIN + timedelta(hours=1)).isoformat()}


def batch_of(stream: str, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of a stream, one per microsecond; what a row does not give is absent in texts, and 0 in numbers."""
    schema = TABLES[stream].schema
    empty = {field.name: _empty(field.type) for field in schema}
    full = [
        {**empty, "ktime_ns": FIRST_KTIME_NS + 1000 * number, "pid": 4711, "start_ns": 500, **row}
        for number, row in enumerate(rows)
    ]
    kept = [{name: value for name, value in row.items() if name in empty} for row in full]
    return pa.RecordBatch.from_pylist(kept, schema=schema)


def _empty(type_: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(type_):
        return [0] * type_.list_size
    if pa.types.is_dictionary(type_) or pa.types.is_string(type_) or pa.types.is_list(type_):
        return None
    return 0


async def store(
    line: Line,
    stream: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    machine: Machine | None = None,
    run: Run | None = None,
) -> Run:
    """Stores rows of a stream; returns the run that recorded them."""
    run = run or Run()
    batch = run.batch(1, batch_of(stream, rows), stream=stream)
    answers = await line.send(run.start(), batch, machine=machine)
    assert {answer.verdict for answer in answers} == {STORED}, answers
    return run


async def bytes_of(server: Server, path: str, **query: str) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of a GET."""
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/api/v1/{path}", params=query) as answer,
    ):
        return answer.status, answer.headers, await answer.read()
