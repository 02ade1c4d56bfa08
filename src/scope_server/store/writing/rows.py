"""Converts received columns to stored columns: keys for repeated values, PostgreSQL's types for the rest."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scope_server.store.dimensions.declared import PROCESSES, Process
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.schema.columns import IN_PROCESS, StreamTable
from scope_server.store.writing.dimensions import Keys, Wanted

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """The rows of one batch, at least one; `machine` is a key."""

    rows: pa.Table
    machine: int
    boot_to_utc_ns: int


@dataclass(frozen=True)
class _Coded:
    # A column as indices into its distinct values.
    codes: Integers
    values: list[str | None]
    dimension: Dimension


class StreamRows:
    """Rows of several batches of one stream, to be written together.

    Attributes:
        wanted: values that need keys before `stored` can be called.
    """

    def __init__(self, table: StreamTable, parts: Sequence[Part]) -> None:
        self.table = table
        self._rows = (
            pa.concat_tables([_completed(part.rows, table) for part in parts]).unify_dictionaries().combine_chunks()
        )
        self._counts = np.array([part.rows.num_rows for part in parts])
        self._offsets = np.array([part.boot_to_utc_ns for part in parts], np.int64)
        self._machines = np.array([part.machine for part in parts], np.int64)
        self._coded = {
            column.name: _coded(self._whole(column.name), column.dimension)
            for column in table.columns
            if column.dimension
        }
        self._process_codes, self._processes = self._distinct_processes()
        self.wanted: Wanted = {PROCESSES: self._processes, **self._texts()}

    def stored(self, batches: Sequence[int | None], keys: Keys) -> pa.Table:
        """The rows with the columns of `BASE` and of the stream, as stored.

        Args:
            batches: the batch id of each part; None: do not store this part.
        """
        ktime = self._whole("ktime_ns").to_numpy(zero_copy_only=False).astype(np.int64)
        micros = (ktime + np.repeat(self._offsets, self._counts)) // 1000
        begins = np.cumsum(self._counts) - self._counts
        processes = np.array([keys[PROCESSES][one] for one in self._processes], np.int64)
        columns = {
            "time": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "ktime_ns": pa.array(ktime),
            "batch": pa.array(np.repeat(np.array([number or 0 for number in batches], np.int64), self._counts)),
            "process": pa.array(processes[self._process_codes]),
            "machine": pa.array(np.repeat(self._machines, self._counts).astype(np.int32)),
            "ordinal": pa.array((np.arange(len(ktime)) - np.repeat(begins, self._counts)).astype(np.int32)),
        }
        for column in self.table.columns:
            if column.dimension:
                coded = self._coded[column.name]
                key = _keys_of(coded, keys)[coded.codes]
                columns[column.name] = pa.array(key, mask=key == 0)
            else:
                # Unsafe cast: 64-bit unsigned values keep their bits, see Kind.UNSIGNED.
                columns[column.name] = self._whole(column.name).cast(column.stored, safe=False)
        rows = pa.table(columns)
        if None in batches:
            rows = rows.filter(pa.array(np.repeat([number is not None for number in batches], self._counts)))
        return rows

    def _whole(self, name: str) -> pa.Array:
        return self._rows.column(name).chunk(0)  # exactly one chunk: they were combined, and there are rows

    def _texts(self) -> dict[Dimension, set[Hashable]]:
        found: dict[Dimension, set[Hashable]] = {}
        for column in self._coded.values():
            found.setdefault(column.dimension, set()).update(text for text in column.values if text is not None)
        return found

    def _distinct_processes(self) -> tuple[Integers, list[Process]]:
        # Three small dictionaries, combined into one number.
        pid, start = (self._process_column(name).dictionary_encode() for name in IN_PROCESS)
        machine = pa.array(np.repeat(self._machines, self._counts)).dictionary_encode()
        code = np.zeros(len(pid), np.int64)
        for part in (machine, pid, start):
            code = code * max(1, len(part.dictionary)) + part.indices.to_numpy(zero_copy_only=False)
        encoded = pa.array(code).dictionary_encode()
        left = encoded.dictionary.to_numpy(zero_copy_only=False)
        found = []
        for part in (start, pid, machine):
            left, index = np.divmod(left, max(1, len(part.dictionary)))
            found.append(part.dictionary.take(pa.array(index)).to_pylist())
        starts, pids, machines = found
        return encoded.indices.to_numpy(zero_copy_only=False), list(zip(machines, pids, starts, strict=True))

    def _process_column(self, name: str) -> pa.Array:
        if self.table.of_processes:
            return self._whole(name).fill_null(0)  # rows without a process, as in store.processes
        return pa.array(np.zeros(self._rows.num_rows, np.int64))


def _completed(rows: pa.Table, table: StreamTable) -> pa.Table:
    # Not every agent knows all columns: missing ones are null.
    if rows.schema.equals(table.schema):
        return rows
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def _coded(column: pa.DictionaryArray, dimension: Dimension) -> _Coded:
    # Only values used in rows: a hostile dictionary may have millions of unused ones. Code 0 is "none".
    indices = column.indices.cast(pa.int64())
    used = indices.unique().drop_null()
    values = column.dictionary.take(used).to_pylist()
    place = np.zeros(len(column.dictionary) + 1, np.int64)
    place[used.to_numpy()] = np.arange(1, len(used) + 1)
    codes = place[indices.fill_null(len(column.dictionary)).to_numpy()]
    return _Coded(codes, [None, *values], dimension)


def _keys_of(column: _Coded, keys: Keys) -> Integers:
    its = keys[column.dimension]
    return np.array([0 if text is None else its[text] for text in column.values], np.int64)
