"""When rows lasted, thread by thread."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from scope_catalogue.shown import Slices
from scope_server.store.answers.lasting import Lasting
from scope_server.store.answers.spans import spans


def _lasting(of_thread: bool, ending: bool) -> Lasting:
    return Lasting(Slices(text="call", ending=ending), of_thread, None)


@pytest.mark.parametrize("of_thread", [False, True])
@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_spans_hold_the_times_of_their_rows(of_thread: bool, ending: bool, count: int) -> None:
    """A time is in a span of a thread if one of its rows lasted then; spans of a thread are apart, and in order."""
    random = np.random.default_rng(11)
    process, tid = random.integers(1, 4, count), random.integers(1, 4, count)
    at, length = random.integers(50, 1000, count), random.integers(0, 20, count)
    rows = pa.table(
        {
            "time": pa.array(at, pa.timestamp("us", "UTC")),
            "ktime_ns": at,
            "process": process,
            "tid": pa.array(tid, pa.int32()),
            "duration_ns": length,
        }
    )
    lasted: dict[tuple[int, int], set[int]] = {}
    for whose, thread, when, long in zip(*(each.tolist() for each in (process, tid, at, length)), strict=True):
        first = when - long if ending else when
        key = whose, thread if of_thread else 0
        lasted.setdefault(key, set()).update(range(first, first + long + 1))
    found = spans(rows, _lasting(of_thread, ending))
    held: dict[tuple[int, int], set[int]] = {}
    each = zip(*(its.tolist() for its in (found.process, found.tid, found.begin, found.end)), strict=True)
    for whose, thread, first, last in each:
        its = held.setdefault((whose, thread), set())
        assert first > max(its, default=-1)
        its.update(range(first, last + 1))
    assert held == lasted
    assert found.processes == sorted({whose for whose, _ in lasted})
    assert found.since <= datetime.fromtimestamp(int(at.min(initial=0)) / 1e6, UTC) <= found.until or not count
