"""All queries on the page docs/sql.md work."""

import re
import time
from pathlib import Path

import pytest
from tests.integration.server.closed_days import LONG_AGO, compacted
from tests.integration.server.records import Line, Run, rows

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_queries() -> None:
    """The page has queries, and the test finds them."""
    assert len(QUERIES) > 5


@pytest.mark.parametrize("query", QUERIES)
async def test_each_query_works(line: Line, query: str) -> None:
    """Each query runs on fresh and packed blocks; one that names `scope.syscall` returns rows."""
    just_now = (time.time_ns() - 10 * 10**9) // 1000 * 1000
    await line.send(
        Run().batch(1, rows(101), boot_to_utc_ns=just_now), Run().batch(1, rows(103), boot_to_utc_ns=LONG_AGO)
    )
    compacted(line)
    answer = line.query(query)
    if "scope.syscall" in query:
        assert answer
