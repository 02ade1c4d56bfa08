"""Helpers: random rows of any stream for a past day, counts of their blocks, and compaction."""

import math
import random
from typing import Any

import pyarrow as pa
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Line
from tests.integration.server.tables import TABLES

from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.writing.connection import WriterConnection

DAY_NS = 24 * 3600 * 10**9
LONG_AGO = BOOT_TO_UTC_NS - 3 * DAY_NS  # an offset of three days ago: that day and the next one are over
CHOICES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, 0.1, -1e300, 5e-324, math.inf, -math.inf, math.nan],
    pa.string(): ["", "NULL", "{}", 'a "b", {c}\\', "ä\n", " ", "x" * 3000],
    pa.dictionary(pa.int32(), pa.string()): ["", "a", "main;a;b", "ä\\xff", "NULL"],
}


def any_rows(stream: str, count: int, seed: int = 1) -> pa.RecordBatch:
    """Rows of a stream with random values, extreme ones included; some values are absent."""
    chance = random.Random(f"{stream} {seed}")
    columns = []
    for field in TABLES[stream].schema:
        if field.name == "ktime_ns":
            values: list[Any] = [FIRST_KTIME_NS + 1000 * chance.randrange(4 * count) for _ in range(count)]
        elif field.name in ("pid", "start_ns"):
            values = [chance.randrange(3) for _ in range(count)]
        else:
            values = [_any(field.type, chance) for _ in range(count)]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=TABLES[stream].schema)


def _any(type_: pa.DataType, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return None
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        length = type_.list_size if pa.types.is_fixed_size_list(type_) else chance.randrange(4)
        return [_any(type_.value_type, chance) for _ in range(length)]
    if type_ in CHOICES:
        return chance.choice(CHOICES[type_])
    bits = type_.bit_width
    least, end = (0, 1 << bits) if pa.types.is_unsigned_integer(type_) else (-1 << bits - 1, 1 << bits - 1)
    return chance.choice([least, end - 1, 0, 1, chance.randrange(least, end)])


def shown(line: Line, stream: str = "syscall") -> list[tuple[Any, ...]]:
    """All rows of the stream's view, as texts, ordered by time."""
    return line.query(f"SELECT r::text FROM scope.{stream} AS r ORDER BY time, batch, ordinal")


def fresh(line: Line, stream: str = "syscall") -> tuple[int, int]:
    """The number of fresh blocks, and of their rows."""
    return _blocks(line, f"fresh.{stream}")


def packed(line: Line, stream: str = "syscall") -> tuple[int, int]:
    """The number of packed blocks, and of their rows."""
    return _blocks(line, f"packed.{stream}")


def _blocks(line: Line, table: str) -> tuple[int, int]:
    ((blocks, rows),) = line.query(f"SELECT count(*), coalesce(sum(row_count), 0)::bigint FROM {table}")
    return blocks, rows


def compacted(line: Line, compaction: Compaction | None = None, everything: bool = False) -> None:
    """Packs all blocks that are due."""
    compaction, connection = compaction or Compaction(TABLES), WriterConnection(line.conninfo)
    try:
        while compaction.step(connection, everything):
            pass
    finally:
        connection.close()
