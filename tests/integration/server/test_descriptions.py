"""A server learns streams and columns that it does not know from agents' descriptions."""

from dataclasses import replace

import pyarrow as pa
from tests.integration.server.records import STORED, Line, Run, description, envelope, rows
from tests.integration.server.tables import described_with

from scope_catalogue.catalogue import streams

COLUMN = described_with("invented", pa.int64(), "what nobody knew")
FUTURE = replace(streams()["syscall"], name="from_the_future", probe="oracle")


def _with_column(count: int, first: int = 0) -> pa.RecordBatch:
    return rows(count, first).append_column("invented", pa.array([1] * count, pa.int64()))


async def test_a_newer_agents_rows_are_stored_at_once(line: Line) -> None:
    """Rows with an unknown stream or column are stored, once the agent has described them."""
    run = Run()
    answers = await line.upload(
        [
            envelope(run.batch(1, rows(101), emitted=101), 1),
            description(COLUMN),
            envelope(run.batch(2, _with_column(13, 101), emitted=114), 2),
            description(FUTURE),
            envelope(run.batch(1, rows(11), emitted=11, stream=FUTURE.name), 3),
        ]
    )
    assert [(answer.verdict, answer.reason) for answer in answers] == [(STORED, "")] * 3
    assert line.query("SELECT count(*), sum(invented)::bigint FROM scope.syscall") == [(114, 13)]
    assert line.query("SELECT count(*), count(duration_ns) FROM scope.from_the_future") == [(11, 11)]
    assert line.books() == [(114, 114, 0, 0, False)]
    assert line.books("from_the_future") == [(11, 11, 0, 0, False)]
