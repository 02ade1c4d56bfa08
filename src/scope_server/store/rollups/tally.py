"""Adds up rows per minute and group, and adds up such totals, column by column, with integers only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.schema.columns import Kind, StreamTable
from scope_views.matching import matching

Integers = npt.NDArray[np.int64]

SUMMED = ("counts", "sums", "failed")
LARGEST = (1 << 63) - 1  # larger sums are stored as this
_HALF = (1 << 32) - 1
_NARROW = 1 << 10  # keys in a range up to this size are numbered by their distance
_DENSE = 1 << 16  # up to this many combinations of keys, use a dense array
_MINUTE_US, _SECOND_US = 60_000_000, 1_000_000


@dataclass(frozen=True)
class Tally:
    """Totals of rows; hours are counted since 1970 UTC.

    Attributes:
        groups: hour, machine, the rollup's keys (0: absent), minute (of the hour), counts, sums, failed.
        buckets: hour, machine, keys, minute, bucket, counts.
        seconds: hour, machine, second (of the hour), counts.
    """

    groups: pa.Table
    buckets: pa.Table
    seconds: pa.Table


def tally(table: StreamTable, rows: pa.Table) -> Tally:
    """Adds up rows in their stored form, at least one."""
    rollup = table.rollup
    if table.added_up:
        rows = rows.filter(matching(table.added_up, rows))
    micros = _numbers(rows, "time", pa.int64())
    keys = {
        "machine": _numbers(rows, "machine", pa.int64()),
        **{name: _numbers(rows, name, pa.int64()) for name in rollup.by},
    }
    ones = np.ones(len(micros), np.int64)
    counts = np.maximum(_numbers(rows, rollup.count, pa.int64()), 0) if rollup.count else ones
    measured = _measured(table, rows)
    by_minute = keys | {"minute": micros // _MINUTE_US}
    values = {"counts": counts, "sums": np.maximum(measured, 0), "failed": _failed(table, rows)}
    if rollup.histogram:
        groups, buckets = added_up(by_minute, values), _unfolded(by_minute, rows.column(rollup.histogram))
    else:
        # Buckets are computed from rows, and groups from buckets, so all rows are read only once.
        fine = added_up(by_minute | {"bucket": np.where(measured < 0, -1, _log2(measured))}, values)
        groups = _again(fine, [*by_minute], SUMMED)
        with_value = fine.filter(pc.greater_equal(fine.column("bucket"), 0))
        buckets = with_value.select([*by_minute, "bucket", "counts"])
    by_second = {"machine": keys["machine"], "second": micros // _SECOND_US}
    return Tally(
        _in_hours(groups, "minute", 60),
        _in_hours(buckets, "minute", 60),
        _in_hours(added_up(by_second, {"counts": counts}), "second", 3600),
    )


def joined(tallies: Sequence[Tally], keys: Sequence[str]) -> Tally:
    """Several tallies as one: entries with the same key are added."""
    by_minute = ["hour", "machine", *keys, "minute"]
    return Tally(
        _again(pa.concat_tables([one.groups for one in tallies]), by_minute, SUMMED),
        _again(pa.concat_tables([one.buckets for one in tallies]), [*by_minute, "bucket"], ["counts"]),
        _again(pa.concat_tables([one.seconds for one in tallies]), ["hour", "machine", "second"], ["counts"]),
    )


def without(found: Tally, column: str) -> Tally:
    """A copy with a column (`machine` or `minute`) set to 0 in groups, buckets and, if present, seconds."""

    def cleared(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(column)
        return table.set_column(place, column, pa.array(np.zeros(len(table), np.int64))) if place >= 0 else table

    return Tally(cleared(found.groups), cleared(found.buckets), cleared(found.seconds))


def added_up(keys: dict[str, Integers], values: dict[str, Integers]) -> pa.Table:
    """The sums of values by keys; no value may be negative; sums are limited to LARGEST."""
    code, distinct = _coded(keys)
    size = len(next(iter(distinct.values())))
    there = np.flatnonzero(np.bincount(code, minlength=size))
    columns = {name: column[there] for name, column in distinct.items()}
    return pa.table(columns | {name: _sums(code, column, size)[there] for name, column in values.items()})


def _again(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> pa.Table:
    table = table.combine_chunks()
    return added_up(*({name: table.column(name).to_numpy() for name in names} for names in (keys, values)))


def _coded(keys: dict[str, Integers]) -> tuple[Integers, dict[str, Integers]]:
    # One small number for all keys of a row, and the keys of each number; some numbers may be unused.
    code = np.zeros(len(next(iter(keys.values()))), np.int64)
    size = 1
    distinct: dict[str, Integers] = {}
    for name, column in keys.items():
        own, values = _codes(column)
        code = code * max(1, len(values)) + own
        numbers = np.arange(size * len(values))
        if len(numbers) > _DENSE:
            encoded = pa.array(code).dictionary_encode()
            code, numbers = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()
        before, last = np.divmod(numbers, max(1, len(values)))
        distinct = {earlier: found[before] for earlier, found in distinct.items()} | {name: values[last]}
        size = len(numbers)
    return code, distinct


def _codes(column: Integers) -> tuple[Integers, Integers]:
    if not len(column):
        return column, column
    low, high = int(column.min()), int(column.max())
    if high - low < _NARROW:
        return column - low, np.arange(low, high + 1)
    encoded = pa.array(column).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def _sums(code: Integers, values: Integers, size: int) -> Integers:
    # bincount adds floats, which is exact for 32-bit halves.
    low = np.bincount(code, values & _HALF, size).astype(np.int64)
    if len(values) and int(values.max()) <= _HALF:
        return low
    high = np.bincount(code, values >> 32, size).astype(np.int64) + (low >> 32)
    return np.where(high >> 31, LARGEST, (high << 32) + (low & _HALF))


def _in_hours(table: pa.Table, unit: str, in_hour: int) -> pa.Table:
    hour, rest = np.divmod(table.column(unit).to_numpy(), in_hour)
    place = table.schema.get_field_index(unit)
    table = table.set_column(place, unit, pa.array(rest))
    return table.add_column(0, "hour", pa.array(hour))


def _numbers(rows: pa.Table, name: str, type_: pa.DataType) -> Integers:
    column = rows.column(name).combine_chunks().cast(type_, safe=False)
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False))


def _measured(table: StreamTable, rows: pa.Table) -> Integers:
    # -1 for missing values.
    name = table.rollup.measured
    if not name:
        return np.full(len(rows), -1, np.int64)
    values = _numbers(rows, name, pa.int64())
    column = table.column(name)
    values = np.where(values < 0, LARGEST if column and column.kind is Kind.UNSIGNED else 0, values)
    nulls = rows.column(name).combine_chunks().is_null().to_numpy(zero_copy_only=False)
    return np.where(nulls, -1, values)


def _failed(table: StreamTable, rows: pa.Table) -> Integers:
    if table.described.failures:
        return np.maximum(_numbers(rows, table.described.failures, pa.int64()), 0)
    if table.failed is None:
        return np.zeros(len(rows), np.int64)
    return np.asarray(matching(table.failed, rows).to_numpy(), np.int64)


def _log2(values: Integers) -> Integers:
    # Uses only the highest bit, because a float of more than 53 bits may be rounded up to the next power of two.
    bits = np.maximum(values, 1)
    bits = bits & ~(bits >> 1)
    return np.asarray((bits.astype(np.float64).view(np.int64) >> 52) - 1023)


def _unfolded(keys: dict[str, Integers], histograms: pa.ChunkedArray) -> pa.Table:
    lists = histograms.combine_chunks()
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False))
    counts = np.asarray(lists.flatten().fill_null(0).to_numpy(zero_copy_only=False))
    row = np.repeat(np.arange(len(lengths)), lengths)
    bucket = np.arange(len(counts)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    some = np.flatnonzero((counts > 0) & (bucket < 64))
    row, bucket, counts = row[some], bucket[some], counts[some]
    return added_up(
        {name: values[row] for name, values in keys.items()} | {"bucket": bucket.astype(np.int64)}, {"counts": counts}
    )
