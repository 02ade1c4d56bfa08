"""Rows of several machines on one clock: nanoseconds since 1970, UTC."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_views.times import TIME

_SAME_NS = 1_000_000_000  # a clock that is set by less keeps its offset, so that a process keeps its start


class Machines:
    """Splits batches by machine. Machines are numbered in the order in which they appear."""

    def __init__(self) -> None:
        self.hostnames: list[str] = []
        self._numbers: dict[str, int] = {}
        self._offsets_ns: list[list[int]] = []  # of each machine, of each of its boots

    def number(self, machine_id: str, hostname: str) -> int:
        """The number of a machine; the first has 0."""
        if machine_id not in self._numbers:
            self._numbers[machine_id] = len(self._numbers)
            self.hostnames.append(hostname)
            self._offsets_ns.append([])
        return self._numbers[machine_id]

    def first(self) -> int:
        """The number of the first machine; if none is known, of one without a name."""
        return 0 if self.hostnames else self.number("", "")

    def parts(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """A machine's number and rows, whose `ktime_ns` and `start_ns` are since 1970.

        Args:
            batch: with `time` of `TIME`'s type, `machine_id` and `hostname`.
        """
        ids = batch["machine_id"].cast(pa.string())
        for machine_id in ids.unique().to_pylist():
            rows = batch.filter(pc.equal(ids, machine_id))
            number = self.number(machine_id or "", rows["hostname"].cast(pa.string())[0].as_py() or "")
            for offset_ns, part in self._of_boots(number, rows):
                yield number, _moved(part, offset_ns)

    def _of_boots(self, number: int, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        known = self._offsets_ns[number]
        while rows.num_rows:
            times, since_boot = (rows[name].cast(pa.int64(), safe=False).to_numpy() for name in (TIME.name, "ktime_ns"))
            offsets = times - since_boot
            first = int(offsets[0])
            offset_ns = next((one for one in known if abs(one - first) < _SAME_NS), first)
            if offset_ns not in known:
                known.append(offset_ns)
            same = np.abs(offsets - offset_ns) < _SAME_NS
            same[0] = True
            yield offset_ns, rows if same.all() else rows.filter(pa.array(same))
            rows = rows.filter(pa.array(~same))


def _moved(rows: pa.RecordBatch, offset_ns: int) -> pa.RecordBatch:
    for name in ("ktime_ns", "start_ns"):
        place = rows.schema.get_field_index(name)
        if place >= 0:
            moved = pc.add(rows[name].cast(pa.int64(), safe=False), offset_ns).cast(pa.uint64(), safe=False)
            rows = rows.set_column(place, name, moved)
    return rows
