"""From columns as they arrive to columns as they are stored: keys for what repeats, PostgreSQL's types for the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scope_server.store.columns import IN_PROCESS, Kind, StreamTable

Process = tuple[int, int, int]  # machine (key), pid, start_ns
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One batch's share of the rows: its machine and its number in the ledger, both keys."""

    rows: pa.Table
    machine: int
    batch: int
    boot_to_utc_ns: int


class StreamRows:
    """The rows of several batches of one stream, at least one row, to be written at once.

    Attributes:
        names, processes: what needs keys before `stored` can be called.
    """

    def __init__(self, table: StreamTable, parts: Sequence[Part]) -> None:
        self.table = table
        self._rows = pa.concat_tables([part.rows for part in parts]).unify_dictionaries().combine_chunks()
        self._counts = np.array([part.rows.num_rows for part in parts])
        self._batches = np.array([part.batch for part in parts], np.int64)
        self._offsets = np.array([part.boot_to_utc_ns for part in parts], np.int64)
        self._named = {
            column.name: _whole(self._rows, column.name) for column in table.columns if column.kind is Kind.NAME
        }
        self.names: set[str] = set()
        for column in self._named.values():
            self.names.update(column.dictionary.drop_null().to_pylist())
        self._process_codes, self.processes = self._distinct_processes([part.machine for part in parts])

    def stored(self, names: Mapping[str, int], processes: Mapping[Process, int]) -> pa.Table:
        """The rows as the stream's table takes them, given the keys."""
        ktime = _whole(self._rows, "ktime_ns").to_numpy(zero_copy_only=False).astype(np.int64)
        micros = (ktime + np.repeat(self._offsets, self._counts)) // 1000
        begins = np.cumsum(self._counts) - self._counts
        keys = np.array([processes[process] for process in self.processes], np.int32)
        columns = {
            "time": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "ktime_ns": pa.array(ktime),
            "batch": pa.array(np.repeat(self._batches, self._counts)),
            "ordinal": pa.array((np.arange(len(ktime)) - np.repeat(begins, self._counts)).astype(np.int32)),
            "process": pa.array(keys[self._process_codes]),
        }
        for column in self.table.columns:
            if column.kind is Kind.NAME:
                values = self._named[column.name]
                key_of = pa.array([names.get(text) for text in values.dictionary.to_pylist()], pa.int32())
                columns[column.name] = key_of.take(values.indices)
            else:
                # Not safe: 64 unsigned bits keep their bits, see Kind.UNSIGNED.
                columns[column.name] = _whole(self._rows, column.name).cast(column.stored, safe=False)
        return pa.table(columns)

    def _distinct_processes(self, machines: Sequence[int]) -> tuple[Integers, list[Process]]:
        # Three small dictionaries, joined in one number: hashing integers is all that is done per row.
        pid, start = (self._process_column(name).dictionary_encode() for name in IN_PROCESS)
        machine = pa.array(np.repeat(np.array(machines, np.int64), self._counts)).dictionary_encode()
        code = np.zeros(len(pid), np.int64)
        for part in (machine, pid, start):
            code = code * max(1, len(part.dictionary)) + part.indices.to_numpy(zero_copy_only=False)
        encoded = pa.array(code).dictionary_encode()
        left = encoded.dictionary.to_numpy(zero_copy_only=False)
        found = []
        for part in (start, pid, machine):
            left, index = np.divmod(left, max(1, len(part.dictionary)))
            found.append(part.dictionary.take(pa.array(index)).to_pylist())
        starts, pids, keys = found
        return encoded.indices.to_numpy(zero_copy_only=False), list(zip(keys, pids, starts, strict=True))

    def _process_column(self, name: str) -> pa.Array:
        if self.table.of_processes:
            return _whole(self._rows, name)
        return pa.array(np.zeros(self._rows.num_rows, np.int64))


def _whole(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).chunk(0)  # there is one: the chunks were combined, and there are rows
