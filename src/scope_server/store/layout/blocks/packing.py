"""Converts rows to blocks, in order of time, with an array per column; and back."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_ROWS = 8192  # up to twice as many, if the rows do not fill whole blocks
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_Integers = npt.NDArray[np.int64]


def packed(rows: pa.Table, keyed: Sequence[str], span_us: int) -> pa.Table:
    """Blocks from at least one row.

    Args:
        rows: with the columns of `BASE` and of the stream, as stored.
        keyed: columns with keys of dimensions whose `held` is `names`.
        span_us: length of a time span; no block has rows of two spans (counted from 1970).
    """
    time = rows.column("time").cast(pa.int64()).to_numpy()
    if np.any(time[1:] < time[:-1]):
        order = np.argsort(time, kind="stable")
        rows, time = rows.take(pa.array(order)), time[order]
    rows = rows.combine_chunks()
    borders = _borders(time, span_us)
    columns = {
        "first_time": _moments(time[borders[:-1]]),
        "last_time": _moments(time[borders[1:] - 1]),
        "row_count": pa.array(np.diff(borders).astype(np.int32)),
        "machines": _distinct(rows, ["machine"], borders),
        "processes": _distinct(rows, ["process"], borders),
        "names": _distinct(rows, keyed, borders),
    }
    offsets = pa.array(borders.astype(np.int32))
    for name in rows.column_names:
        values = rows.column(name).combine_chunks()
        if pa.types.is_list(values.type):
            values = _as_texts(values)
        columns[name] = pa.ListArray.from_arrays(offsets, values)
    return pa.table(columns)


def unpacked(blocks: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows in blocks, with these columns; lists stay texts, as in a block."""
    return pa.table({name: pc.list_flatten(blocks.column(name)) for name in names})


def _borders(time: _Integers, span_us: int) -> _Integers:
    # Splits each span into equal parts.
    spans = time // span_us
    ends = [*(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(time)]
    found, begin = [0], 0
    for end in ends:
        parts = max(1, (end - begin) // BLOCK_ROWS)
        found += [begin + (end - begin) * part // parts for part in range(1, parts + 1)]
        begin = end
    return np.array(found, np.int64)


def _moments(micros: _Integers) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def _distinct(rows: pa.Table, names: Sequence[str], borders: _Integers) -> pa.Array:
    # Distinct keys of all these columns together, one list per block.
    columns = [rows.column(name).combine_chunks() for name in names]
    found = []
    for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        parts = [column.slice(begin, end - begin).unique().drop_null().cast(pa.int64()) for column in columns]
        found.append(np.unique(pa.concat_arrays(parts).to_numpy()) if parts else np.array([], np.int64))
    return pa.array(found, pa.list_(pa.int64()))


def _as_texts(lists: pa.ListArray) -> pa.Array:
    # In PostgreSQL's text format of arrays: a block's array has one dimension, so lists are stored as texts.
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    values = lists.flatten()
    if pa.types.is_string(values.type):
        escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
        texts = pc.binary_join_element_wise('"', escaped, '"', "")
    else:
        texts = values.cast(pa.string())
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts.fill_null("NULL")), ",")
    braced = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(lists.is_valid(), braced, pa.scalar(None, pa.string()))
