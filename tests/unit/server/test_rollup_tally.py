"""Rows are added up by key columns: sums are exact whole numbers, over any number of batches and merges."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scope_catalogue.catalogue import streams
from scope_catalogue.shown import Rollup
from scope_server.errors import SchemaConflict
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.rollups.packed import FRESH, HOURS, packed, unpacked
from scope_server.store.rollups.tally import LARGEST, added_up, joined, tally, without
from scope_server.store.schema.columns import stream_table
from scope_server.store.schema.tables import Tables

SYSCALL = Tables(streams().values())["syscall"]
KEYS = SYSCALL.rollup.by
HOUR_US = 3_600_000_000


def stored(count: int, spread_us: int, seed: int = 1, machines: int = 3) -> pa.Table:
    """Rows as stored, of several machines, some without a name or a result."""
    random = np.random.default_rng(seed)
    times = 480_000 * HOUR_US + random.integers(0, spread_us, count)
    return pa.table(
        {
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "machine": pa.array(random.integers(1, machines + 1, count).astype(np.int32)),
            "comm": pa.array(random.integers(1, 1 << 40, 7)[random.integers(0, 7, count)]),
            "name": pa.array(random.integers(0, 11, count), mask=random.random(count) < 0.1),
            "duration_ns": pa.array(1 << random.integers(0, 62, count), mask=random.random(count) < 0.1),
            "ret": pa.array(random.integers(-40, 40, count), mask=random.random(count) < 0.1),
        }
    )


def by_hand(rows: pa.Table) -> dict[tuple[int, ...], list[int]]:
    """count, sum and failures by hour, machine, comm, name and minute, a row at a time."""
    found: dict[tuple[int, ...], list[int]] = {}
    for row in rows.set_column(0, "time", rows.column("time").cast(pa.int64())).to_pylist():
        hour, rest = divmod(row["time"], HOUR_US)
        key = (hour, row["machine"], row["comm"], row["name"] or 0, rest // 60_000_000)
        group = found.setdefault(key, [0, 0, 0])
        group[0] += 1
        group[1] += row["duration_ns"] or 0
        group[2] += (row["ret"] or 0) < 0
    return found


def groups(table: pa.Table) -> dict[tuple[int, ...], list[int]]:
    """A tally's groups, in the form of by_hand."""
    names = ("hour", "machine", *KEYS, "minute")
    return {
        tuple(row[name] for name in names): [row["counts"], row["sums"], row["failed"]] for row in table.to_pylist()
    }


@pytest.mark.parametrize("spread_us", [1, 7 * HOUR_US, 400 * 24 * HOUR_US])
def test_groups_are_the_rows_added_up(spread_us: int) -> None:
    """A tally's groups equal the rows added up one by one, for few groups and for as many groups as rows."""
    rows = stored(2003, spread_us)
    found = tally(SYSCALL, rows)
    wanted = by_hand(rows)
    assert groups(found.groups) == {key: [c, min(s, LARGEST), f] for key, (c, s, f) in wanted.items()}
    assert sum(found.seconds.column("counts").to_pylist()) == 2003
    with_value = 2003 - rows.column("duration_ns").null_count
    assert sum(found.buckets.column("counts").to_pylist()) == with_value


def test_packing_keeps_all() -> None:
    """A packed tally has one row per hour and machine; unpacked and joined, packed parts equal the whole tally."""
    rows = stored(3001, 5 * HOUR_US)
    whole = tally(SYSCALL, rows)
    packs = [packed(tally(SYSCALL, rows.slice(begin, 500)), KEYS, FRESH) for begin in range(0, 3001, 500)]
    assert packs[0].num_rows <= 3 * 5
    again = joined([unpacked(pack, KEYS) for pack in packs], KEYS)
    assert groups(again.groups) == groups(whole.groups)
    some = pc.greater(again.seconds.column("counts"), 0)
    assert again.seconds.filter(some).sort_by([(name, "ascending") for name in ("hour", "machine", "second")]) == (
        whole.seconds.sort_by([(name, "ascending") for name in ("hour", "machine", "second")])
    )
    by_hour = packed(joined([without(again, "minute")], KEYS), KEYS, HOURS)
    assert "minutes" not in by_hour.column_names
    assert sum(sum(counts) for counts in by_hour.column("counts").to_pylist()) == 3001


def test_a_bucket_has_what_lies_between_two_powers() -> None:
    """A bucket has the values between two powers of two, even at borders that floating point would round up."""
    values = [0, 1, 2, 3, 4, (1 << 53) - 1, 1 << 53, (1 << 62) - 1, 1 << 62, LARGEST, -1]
    rows = stored(len(values), 1, machines=1)
    rows = rows.set_column(4, "duration_ns", pa.array(values)).set_column(3, "name", pa.array([5] * len(values)))
    rows = rows.set_column(2, "comm", pa.array([5] * len(values)))
    buckets = tally(SYSCALL, rows).buckets
    found = dict(zip(buckets.column("bucket").to_pylist(), buckets.column("counts").to_pylist(), strict=True))
    # -1 is how 2**64 - 1 is stored.
    assert found == {0: 2, 1: 2, 2: 1, 52: 1, 53: 1, 61: 1, 62: 3}


def test_sums_are_exact_or_the_largest() -> None:
    """Sums are exact beyond the 53 bits of floating point; sums beyond 63 bits become LARGEST."""
    same = np.zeros(3, np.int64)
    values = np.array([(1 << 61) + 1, (1 << 61) + 3, (1 << 61) + 5])
    assert added_up({"key": same}, {"sums": values}).column("sums").to_pylist() == [3 * (1 << 61) + 9]
    assert added_up({"key": same}, {"sums": values * 2}).column("sums").to_pylist() == [LARGEST]


def test_rows_that_are_left_out() -> None:
    """A nested call is not counted; if all calls are nested, there is nothing to write."""
    table = Tables(streams().values())["cuda_launch"]
    columns = {name: pa.array([1, 1]) for name in ("comm", "kernel", "duration_ns", "result", "machine")}
    rows = pa.table(columns | {"time": pa.array([0, 1]).cast(pa.timestamp("us", "UTC")), "nested": pa.array([0, 1])})
    found = tally(table, rows)
    assert found.groups.column("counts").to_pylist() == found.groups.column("failed").to_pylist() == [1]
    assert packed(tally(table, rows.slice(1)), table.rollup.by, FRESH).num_rows == 0


def test_every_stream_has_a_rollup() -> None:
    """A stream that declares no rollup is counted by comm, if it has that column."""
    tables = Tables(streams().values())
    assert tables["syscall"].rollup == Rollup(by=("comm", "name"), measured="duration_ns")
    assert (tables["syscall"].failures, tables["syscall_summary"].failures) == ("ret < 0", "errors")
    assert tables["cuda_memory"].rollup == Rollup(by=("comm",))
    assert tables["gpu_error"].rollup == Rollup(by=())


def test_a_rollup_of_columns_that_there_are_not() -> None:
    """A rollup by a column that is no text is refused when the tables are made."""
    with pytest.raises(SchemaConflict, match="nr"):
        stream_table(replace(streams()["syscall"], rollup=Rollup(by=("nr",))), BLOCKS)
