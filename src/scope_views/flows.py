"""Which slices an arrow connects: those with one number."""

import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from scope_catalogue.shown import Flow
from scope_catalogue.stream import DescribedStream
from scope_views.chosen import Chosen

Numbers = np.ndarray[Any, np.dtype[np.uint64]]

_PROCESS = ("pid", "start_ns")
# Steps of splitmix64: every bit of a value changes half of the bits of the number.
_FIRST, _SECOND, _THIRD = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_S30, _S27, _S31 = (np.uint64(each) for each in (30, 27, 31))


class Flows:
    """The flows of a stream's rows.

    Args:
        machine: its number in the trace.
    """

    def __init__(self, stream: DescribedStream, flow: Flow, machine: int) -> None:
        self._flow, self._chosen = flow, Chosen(stream, flow.where)
        self._seed = zlib.crc32(flow.name.encode()) + (machine << 32)

    def ids(self, batch: pa.RecordBatch) -> Numbers:
        """The number of each row's flow, shape (rows,); never 0."""
        found = np.full(batch.num_rows, self._seed, np.uint64)
        for name in (*_PROCESS, *self._flow.by):
            column = batch[name].cast(pa.int64(), safe=False).fill_null(0)
            found = _mixed(found ^ column.to_numpy(zero_copy_only=False).view(np.uint64))
        return np.maximum(found, np.uint64(1))

    def mask(self, batch: pa.RecordBatch) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which rows belong to a flow, shape (rows,)."""
        mask: np.ndarray[Any, np.dtype[np.bool_]] = self._chosen.mask(batch).to_numpy(zero_copy_only=False)
        return mask


def _mixed(values: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        values = values + _FIRST
        values = (values ^ (values >> _S30)) * _SECOND
        values = (values ^ (values >> _S27)) * _THIRD
        return values ^ (values >> _S31)
