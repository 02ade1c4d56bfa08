"""Samples within the times of other rows: the condition on them, in PostgreSQL."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from scope_server.store.answers.spans import Spans

_SAMPLES = """\
CREATE TABLE samples AS
    SELECT 1 + i % 3 AS process, 1 + i % 2 AS tid, 10::bigint * i AS ktime_ns FROM generate_series(1, 1000) AS i;
CREATE FUNCTION few() RETURNS SETOF samples LANGUAGE plpgsql ROWS 1
    AS $$ BEGIN RETURN QUERY SELECT * FROM samples; END $$"""


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


@pytest.mark.parametrize("of_thread", [False, True])
def test_many_more_samples_than_were_expected(empty_database: str, of_thread: bool) -> None:
    """Where PostgreSQL expects one sample, it goes through the spans for each; they are not made anew each time."""
    begin = np.arange(0, 9000, 30)
    process, tid = begin // 30 % 2 + 1, begin // 30 % 3 + 1 if of_thread else np.zeros(len(begin), np.int64)
    never = datetime.fromtimestamp(0, UTC)
    spans = Spans(process, tid, begin, begin + 12, never, never, of_thread)
    query = sql.SQL("SELECT count(*) FROM few() AS r WHERE {}").format(spans.holding)
    with psycopg.connect(empty_database) as connection:
        connection.execute(_SAMPLES)
        connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        (found,) = connection.execute(query).fetchone() or ()
        (explained,) = connection.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(query)).fetchone() or ()
    at = np.arange(1, 1001)
    held = [
        np.any(
            (process == 1 + i % 3) & ((tid == 1 + i % 2) | (not of_thread)) & (begin <= 10 * i) & (10 * i <= begin + 12)
        )
        for i in at
    ]
    assert found == sum(held) > 0
    nodes = list(_nodes(explained[0]["Plan"]))
    assert any(node["Node Type"] == "Nested Loop" for node in nodes), explained
    (made,) = (node for node in nodes if node.get("Group Key"))
    assert made["Actual Loops"] == 1, explained
