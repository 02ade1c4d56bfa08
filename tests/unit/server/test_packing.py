"""Blocks of rows: sorted, of even sizes, with a summary of each; every value can be read back."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scope_server.store.layout.blocks.packing import BLOCK_ROWS, DAY_US, HOUR_US, packed, unpacked
from scope_server.store.schema.columns import BASE, OF_BLOCK

KEYED = ("comm", "name")
TEXTS = ["", "a", "NULL", "null", '"', "\\", '\\"', "{}", "a,b", "{a,b}", " ", "ä\n\t", "x" * 300]
NUMBERS = [math.inf, -math.inf, math.nan, 0.0, -0.0, 5e-324, 1.7e308, 0.1]


def stored(count: int, spread_us: int = HOUR_US, seed: int = 1) -> pa.Table:
    """Rows as stored, unsorted, with columns of every kind of type and some absent values."""
    chance = np.random.default_rng(seed)

    def some(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=chance.random(count) < 0.1)

    def lists(values: list[Any]) -> list[Any]:
        return [[values[n] for n in chance.integers(0, len(values), length)] for length in chance.integers(0, 4, count)]

    def chosen(values: list[Any]) -> Any:
        return np.array(values, object)[chance.integers(0, len(values), count)]

    time = 480_000 * HOUR_US + 7 + chance.integers(0, spread_us, count)
    own = {
        "comm": some(chance.integers(1, 50, count), pa.int64()),
        "name": some(chance.integers(1, 50, count), pa.int64()),
        "small": some(chance.integers(-(1 << 15), 1 << 15, count), pa.int16()),
        "large": some(chance.integers(-(1 << 63), (1 << 63) - 1, count), pa.int64()),
        "ratio": some(chosen(NUMBERS), pa.float64()),
        "flag": some(chance.random(count) < 0.5, pa.bool_()),
        "text": some(chosen(TEXTS), pa.string()),
        "args": pa.array([value if chance.random() < 0.9 else None for value in lists([*TEXTS, None])]),
        "loads": pa.array([value if chance.random() < 0.9 else None for value in lists([1, -(1 << 63), None])]),
    }
    base = {
        "time": pa.array(time).cast(pa.timestamp("us", "UTC")),
        "ktime_ns": pa.array(time * 1000 + chance.integers(0, 1000, count)),
        "batch": pa.array(chance.integers(1, 4, count)),
        "process": pa.array(chance.integers(1, 40, count)),
        "machine": pa.array(chance.integers(1, 4, count).astype(np.int32)),
        "ordinal": pa.array(np.arange(count, dtype=np.int32)),
    }
    assert list(base) == list(BASE)
    return pa.table(base | own)


def replaced(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The rows with other values in a column."""
    return rows.set_column(rows.column_names.index(name), name, values)


def listed(name: str, values: list[Any], type_: pa.DataType) -> Any:
    """The texts that a block has for a column of these lists."""
    rows = replaced(stored(len(values)), name, pa.array(values, pa.list_(type_)))
    rows = replaced(rows, "time", pa.array([0] * len(values), pa.timestamp("us", "UTC")))
    (block,) = packed(rows, KEYED, HOUR_US).column(name).to_pylist()
    return block


def within(blocks: pa.Table) -> Iterator[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """Each block's summary, and its columns."""
    for block in blocks.to_pylist():
        yield {name: block.pop(name) for name in OF_BLOCK}, block


def elements(text: str | None) -> list[str | None] | None:
    """Parses the text of a one-dimensional array, as PostgreSQL's manual describes."""
    if text is None:
        return None
    assert text[0] + text[-1] == "{}"
    found: list[str | None] = []
    left = iter(text[1:-1])
    for first in left:
        value, quoted = "", first == '"'
        character = next(left) if quoted else first
        while character != ('"' if quoted else ","):
            value += next(left) if quoted and character == "\\" else character
            character = next(left, ",") if not quoted else next(left)
        found.append(None if not quoted and value.upper() == "NULL" else value)
        if quoted:
            assert next(left, ",") == ","
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("span_us", [HOUR_US, DAY_US])
def test_every_row_comes_back_whole(seed: int, span_us: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come back with every value, in order of time; rows of equal time keep their order; lists become texts."""
    monkeypatch.setattr("scope_server.store.layout.blocks.packing.BLOCK_ROWS", 10 * seed + 1)
    rows = stored(1009, 50 * HOUR_US if seed % 2 else 300, seed)
    again = unpacked(packed(rows, KEYED, span_us), rows.column_names)
    order = np.argsort(rows.column("time").cast(pa.int64()).to_numpy(), kind="stable")
    wanted = rows.take(pa.array(order))
    for name in set(rows.column_names) - {"args", "loads", "ratio"}:
        assert again.column(name).to_pylist() == wanted.column(name).to_pylist(), name
        assert again.column(name).type == wanted.column(name).type
    assert list(map(repr, again.column("ratio").to_pylist())) == list(map(repr, wanted.column("ratio").to_pylist()))
    assert list(map(elements, again.column("args").to_pylist())) == wanted.column("args").to_pylist()
    loads = [value and [one and str(one) for one in value] for value in wanted["loads"].to_pylist()]
    assert list(map(elements, again["loads"].to_pylist())) == loads


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_blocks_are_those_of_the_rows(seed: int) -> None:
    """Repacking fresh blocks by day gives the same blocks as packing all their rows at once, lists included."""
    rows = stored(30_011, 40 * HOUR_US, seed)
    rows = rows.sort_by("time")
    parts = [packed(rows.slice(begin, 1009), KEYED, HOUR_US) for begin in range(0, rows.num_rows, 1009)]
    merged = packed(unpacked(pa.concat_tables(parts), rows.column_names), KEYED, DAY_US)
    whole = packed(rows, KEYED, DAY_US)
    without_nan = [name for name in whole.column_names if name != "ratio"]
    assert merged.select(without_nan) == whole.select(without_nan)
    assert repr(merged.column("ratio").to_pylist()) == repr(whole.column("ratio").to_pylist())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("span_us", [HOUR_US, DAY_US])
def test_a_block_knows_what_it_has(seed: int, span_us: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's rows are sorted and of one span; its summary has first and last time, count and distinct keys."""
    monkeypatch.setattr("scope_server.store.layout.blocks.packing.BLOCK_ROWS", 70)
    rows = stored(2003, (1, 90 * HOUR_US, HOUR_US, 30 * HOUR_US)[seed], seed)
    last = None
    for known, block in within(packed(rows, KEYED, span_us)):
        times = block["time"]
        micros = pa.array([times[0], times[-1]], pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        assert times == sorted(times)
        assert last is None or last <= times[0]
        assert micros[0] // span_us == micros[1] // span_us
        assert (known["first_time"], known["last_time"]) == (times[0], times[-1])
        assert {len(values) for values in block.values()} == {known["row_count"]}
        assert known["machines"] == sorted(set(block["machine"]))
        assert known["processes"] == sorted(set(block["process"]))
        assert known["names"] == sorted({*block["comm"], *block["name"]} - {None})
        last = times[-1]


@pytest.mark.parametrize("count", [1, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS - 1, 2 * BLOCK_ROWS, 100_003])
def test_blocks_are_large_and_even(count: int) -> None:
    """If there are enough rows, a block has 8,192 to 16,383; the sizes of a span's blocks differ by 1 at most."""
    counts = packed(stored(count, 600), KEYED, HOUR_US).column("row_count").to_pylist()
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1
    assert max(counts) < 2 * BLOCK_ROWS
    assert min(counts) >= min(count, BLOCK_ROWS)


@pytest.mark.parametrize("moment_us", [-1, 0])
def test_a_span_ends_where_the_next_begins(moment_us: int) -> None:
    """The last microsecond of an hour belongs to that hour, before 1970 too."""
    for hour in (-7, 0, 480_000):
        times = pa.array([hour * HOUR_US + moment_us, hour * HOUR_US + moment_us + 1]).cast(pa.timestamp("us", "UTC"))
        assert packed(replaced(stored(2), "time", times), KEYED, HOUR_US).num_rows == (2 if moment_us < 0 else 1)


def test_keys_of_columns_that_have_none() -> None:
    """The list of names is empty for a stream without names, and for rows whose names are absent."""
    rows = stored(11)
    absent = replaced(rows, "comm", pa.nulls(11, pa.int64()))
    assert packed(rows, [], HOUR_US).column("names").to_pylist() == [[]]
    assert packed(absent, ["comm"], HOUR_US).column("names").to_pylist() == [[]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ([], "{}"),
        ([None], "{NULL}"),
        ([""], '{""}'),
        (["NULL", None, "a"], '{"NULL",NULL,"a"}'),
        (['say "a"', "C:\\", '\\"'], r'{"say \"a\"","C:\\","\\\""}'),
        (["{a,b}", " c "], '{"{a,b}"," c "}'),
    ],
)
def test_lists_of_texts_are_as_postgresql_writes_them(value: Any, text: str | None) -> None:
    """Each element is quoted, so that PostgreSQL does not read it as NULL or syntax; an empty list is not absent."""
    assert listed("args", [value, ["before"], value], pa.string()) == [text, '{"before"}', text]


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        ([1, -(1 << 63), None], pa.int64(), "{1,-9223372036854775808,NULL}"),
        ([True, False, None], pa.bool_(), "{true,false,NULL}"),
        ([math.inf, -math.inf, math.nan, 0.1, -0.0], pa.float64(), "{inf,-inf,nan,0.1,-0}"),
        ([], pa.int64(), "{}"),
        (None, pa.int64(), None),
    ],
)
def test_lists_of_numbers_are_too(value: Any, type_: pa.DataType, text: str | None) -> None:
    """Lists of numbers and booleans are written in forms that PostgreSQL reads."""
    assert listed("loads", [value, [], value], type_) == [text, "{}", text]
