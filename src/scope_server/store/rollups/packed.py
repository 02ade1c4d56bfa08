"""Converts a tally to rows of a rollup's table, one per hour and machine, and back."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.rollups.tally import SUMMED, Integers, Tally

FRESH, MINUTES, HOURS, BARE = range(4)  # levels; the last one is per minute and without keys
EVERY_MACHINE = 0  # the machine number in rows for all machines
_HOUR_US = 3_600_000_000
_MACHINES = 1 << 32


def packed(found: Tally, keys: Sequence[str], level: int) -> pa.Table:
    """The rows of a tally."""
    groups = _sorted(found.groups, [*keys, "minute"])
    buckets = _sorted(found.buckets, [*keys, "minute", "bucket"])
    places = np.unique(_places(groups))
    hours, machines = np.divmod(places, _MACHINES)
    own = _offsets(groups, places)
    of_buckets = _offsets(buckets, places)
    small, large = pa.int16(), pa.int64()
    columns = {
        "hour": pa.array(hours * _HOUR_US).cast(pa.timestamp("us", "UTC")),
        "machine": pa.array(machines.astype(np.int32)),
        "level": pa.array(np.full(len(places), level, np.int16)),
        "groups": pa.array(np.diff(own).astype(np.int32)),
        **{name: _lists(own, groups, name, large) for name in (*keys, *SUMMED)},
        **{f"bucket_{name}": _lists(of_buckets, buckets, name, large) for name in (*keys, "counts")},
        "buckets": _lists(of_buckets, buckets, "bucket", small),
    }
    if level != HOURS:
        columns["minutes"] = _lists(own, groups, "minute", small)
        columns["bucket_minutes"] = _lists(of_buckets, buckets, "minute", small)
    if level in (FRESH, MINUTES):
        columns |= _dense(found.seconds, places)
    return pa.table(columns)


def unpacked(rows: pa.Table, keys: Sequence[str]) -> Tally:
    """The tally in rows of level FRESH or MINUTES. Keys that the rows lack are 0."""
    rows = rows.combine_chunks()
    hours = rows.column("hour").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // _HOUR_US
    machines = rows.column("machine").cast(pa.int64()).to_numpy()

    def table(lengths_of: str, columns: dict[str, str]) -> pa.Table:
        lengths = _lengths(rows, lengths_of)
        of_row = {"hour": np.repeat(hours, lengths), "machine": np.repeat(machines, lengths)}
        return pa.table(of_row | {name: _flat(rows, stored, lengths) for name, stored in columns.items()})

    named = {name: name for name in keys}
    of_buckets = {name: f"bucket_{name}" for name in keys}
    firsts = rows.column("first_second").cast(pa.int64()).fill_null(0).to_numpy()
    lengths = _lengths(rows, "per_second")
    seconds = table("per_second", {"counts": "per_second"})
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    seconds = seconds.add_column(2, "second", pa.array(np.repeat(firsts, lengths) + within))
    return Tally(
        table("minutes", named | {"minute": "minutes"} | {name: name for name in SUMMED}),
        table(
            "bucket_minutes",
            of_buckets | {"minute": "bucket_minutes", "bucket": "buckets", "counts": "bucket_counts"},
        ),
        seconds,
    )


def _sorted(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    # Sorted, so that PostgreSQL can compress the arrays better.
    return table.sort_by([(name, "ascending") for name in ("hour", "machine", *keys)]).combine_chunks()


def _places(table: pa.Table) -> Integers:
    return np.asarray(table.column("hour").to_numpy() * _MACHINES + table.column("machine").to_numpy())


def _offsets(table: pa.Table, places: Integers) -> Integers:
    return np.searchsorted(_places(table), np.append(places, np.iinfo(np.int64).max))


def _lists(offsets: Integers, table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
    values = pa.array(table.column(name).to_numpy()).cast(type_)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _dense(seconds: pa.Table, places: Integers) -> dict[str, pa.Array]:
    seconds = _sorted(seconds, ["second"])
    borders = _offsets(seconds, places)
    begins, ends = borders[:-1], borders[1:]
    second, counts = seconds.column("second").to_numpy(), seconds.column("counts").to_numpy()
    firsts = second[begins]
    lengths = second[ends - 1] - firsts + 1
    offsets = np.append(0, np.cumsum(lengths))
    dense = np.zeros(int(offsets[-1]), np.int64)
    dense[np.repeat(offsets[:-1] - firsts, ends - begins) + second] = counts
    return {
        "first_second": pa.array(firsts.astype(np.int32)),
        "per_second": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(dense)),
    }


def _lengths(rows: pa.Table, name: str) -> Integers:
    lengths = pc.list_value_length(rows.column(name)).fill_null(0)
    return np.asarray(lengths.to_numpy().astype(np.int64))


def _flat(rows: pa.Table, name: str, lengths: Integers) -> Integers:
    column = rows.column(name)
    if column.null_count:  # rows written before the column existed
        absent = np.repeat(column.is_null().to_numpy(), lengths)
        found = np.zeros(len(absent), np.int64)
        found[~absent] = pc.list_flatten(column).cast(pa.int64()).to_numpy()
        return found
    return np.asarray(pc.list_flatten(column).cast(pa.int64()).to_numpy())
