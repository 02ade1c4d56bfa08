"""Streams: the kinds of rows that a probe produces, the meaning of their columns, and how they are shown.

The C structs in a probe's object define the columns; Python defines their meanings. Both are compared whenever a layout
is read.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Btf, Struct
from scope_bpf.layout.fields import Layout, layout_of
from scope_catalogue.shown import Latest, Rollup, Shown
from scope_catalogue.stream import Column, Mode

Rows = np.ndarray[Any, np.dtype[Any]]
Derive = Callable[[Rows], dict[str, pa.Array]]


@dataclass(frozen=True)
class Tails:
    """What lies behind the fixed parts of rows.

    Attributes:
        data: shape (bytes,), uint8.
        starts: shape (rows + 1,), uint64: row i has data[starts[i]:starts[i + 1]].
    """

    data: Rows
    starts: Rows


Decode = Callable[[Rows, Tails, Collection[str]], dict[str, pa.Array]]


@dataclass(frozen=True)
class Derived:
    """A column that user space makes: computed from the other columns of a batch, or sampled."""

    column: Column
    arrow: pa.DataType


@dataclass(frozen=True)
class Made:
    """The columns of a stream that user space makes.

    Attributes:
        derived: columns that `derive` computes from a structured array of the rows; for samples, all columns.
        decoded: columns that `decode` computes from the rows and their tails; its last argument names the wanted ones.
        resolved: columns that the probe's resolver computes.
    """

    derived: Mapping[str, Derived] = field(default_factory=dict)
    derive: Derive | None = None
    decoded: Mapping[str, Derived] = field(default_factory=dict)
    decode: Decode | None = None
    resolved: Mapping[str, Derived] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, Derived]:
        """All of them."""
        return {**self.derived, **self.decoded, **self.resolved}


@dataclass(frozen=True)
class Summary:
    """The stream's rows are counted in maps of the kernel, and read once an interval.

    Attributes:
        of_processes: the rows are about processes. False is for summaries, not states, whose key has no struct
            scope_process.
        gauge: they are states, recorded in every mode, with a row for each state that changed in the interval.
        adds_up: another summary of the probe; this stream adds up its rows by process and has no structs in C.
    """

    of_processes: bool = True
    gauge: bool = False
    adds_up: str = ""


@dataclass(frozen=True)
class Settled:
    """A program that tells what no event makes due.

    Attributes:
        by: of a summary, an iter program that counts what has not ended yet, up to now. It runs before each reading and
            when the trace begins, but not at the begin of a held command, whose waiting does not count. Of a gauge, an
            iter program that fills in states; it runs before each reading and when the trace ends. Of events, a
            raw_tp program that emits rows; it runs every second with argument 0, and at the end of the trace with 1. It
            may be an iter program, too, which reads this number in `scope_settles_all` (owner.bpf.h).
        every: of events, the option with the time between two runs, in ms; empty: a second.
    """

    by: str
    every: str = ""


@dataclass(frozen=True)
class Names:
    """Text columns of a summary, joined from columns of another stream of the probe, `stream`, by `keys`.

    A text that was cut, as the other stream says, has ... where the rest was.

    Attributes:
        text: the column, with its meaning `column`.
        also: further columns.
    """

    stream: str
    keys: tuple[str, ...]
    text: str
    column: Column
    also: Mapping[str, Column] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, Column]:
        """All joined columns."""
        return {self.text: self.column, **self.also}


HEADER = {
    "ktime_ns": Column("time of the event since boot (CLOCK_BOOTTIME)", "ns", identity=True),
    "start_ns": Column(
        "when the process started, since boot (CLOCK_BOOTTIME); with pid, it identifies a process", "ns", identity=True
    ),
    "cgroup_id": Column("id of the thread's cgroup v2", identity=True),
    "pid": Column(
        "process id as seen on the host; absent, like all columns about the process, if no process caused the event",
        identity=True,
    ),
    "tid": Column("thread id as seen on the host", identity=True),
    "uid": Column("user id as seen on the host"),
    "cpu": Column("CPU on which the event happened"),
    "comm": Column("name of the thread"),
}

OF_INTERVAL = {
    "ktime_ns": Column("end of the interval, since boot (CLOCK_BOOTTIME)", "ns", identity=True),
    "interval_ns": Column("length of the interval", "ns", identity=True),
}

PROCESS = {
    **OF_INTERVAL,
    "start_ns": HEADER["start_ns"],
    "cgroup_id": Column("id of the process's cgroup v2", identity=True),
    "pid": HEADER["pid"],
    "uid": HEADER["uid"],
    "comm": Column("name of the process's main thread"),
}

FILE_PATH = {  # of a stream with the paths of a summary's files: struct scope_file_path
    "inode": Column("inode number of the file", identity=True),
    "device": Column("device number of the file system: major << 20 | minor", identity=True),
    "file_type": Column("S_IFMT bits", hex=True),
    "path": Column("absolute path", cut_if="path_truncated"),
    "path_truncated": Column("1 if the beginning of the path was cut"),
}

SAMPLED = {"ktime_ns": HEADER["ktime_ns"]}

IDENTITY = ("start_ns", "cgroup_id", "pid", "tid", "uid", "comm")  # absent in rows without a process

INTERVAL = np.dtype([("ktime_ns", "<u8"), ("interval_ns", "<u8")])  # the reader of a summary adds these


@dataclass(frozen=True)
class Stream:
    """One kind of rows. The C struct is `NAME_event`; for a summary, `NAME_key` and `NAME_value`; samples have none.

    Attributes:
        columns: the members of the struct by name, in any order, without those of the header and the process.
        summary: how the rows are counted; None: they are not.
        sampled: the rows are those of the probe's sampler.
        made: the columns that user space makes.
        hidden: members that only `made` and `null_unless` use; they are no columns.
        null_unless: column -> member; the column is null in rows where the member is 0.
        shown: how the rows are shown.
        failed: which rows failed, a filter such as `ret < 0`; empty: none. Of a summary, `COLUMN > 0`: the column has
            the number of events that failed (`DescribedStream.failures`).
        names: text columns joined from another stream.
        internal: only used for `names`; its rows never leave the tracer.
        settled: a program that tells what no event makes due; None: events tell everything.
        labels: columns that become the labels when the latest samples are exported as metrics; none: no metrics.
        describes: fields of scope.v1.Process -> columns that describe the row's own process; `failed` names a column
            that is not 0 in rows that do not describe it.
        rollup: how the rows are added up by the minute; None: they are counted, by comm if there is such a column.
        latest: which states the rows describe; None: none.
    """

    name: str
    meaning: str
    columns: Mapping[str, Column]
    summary: Summary | None = None
    sampled: bool = False
    made: Made = field(default_factory=Made)
    hidden: tuple[str, ...] = ()
    null_unless: Mapping[str, str] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)
    failed: str = ""
    names: Names | None = None
    internal: bool = False
    settled: Settled | None = None
    labels: tuple[str, ...] = ()
    describes: Mapping[str, str] = field(default_factory=dict)
    rollup: Rollup | None = None
    latest: Latest | None = None

    @property
    def mode(self) -> Mode:
        """In which mode the rows are recorded."""
        if self.summary:
            return Mode.SUMMARY
        return Mode.SAMPLES if self.sampled else Mode.EVENTS

    @property
    def is_gauge(self) -> bool:
        """Whether the rows are states."""
        return self.summary is not None and self.summary.gauge

    @property
    def adds_up(self) -> str:
        """The summary whose rows this stream adds up; empty: it does not."""
        return self.summary.adds_up if self.summary else ""

    @property
    def of_processes(self) -> bool:
        """Whether the rows are about processes."""
        return self.summary is None or self.summary.of_processes

    @property
    def implied(self) -> Mapping[str, Column]:
        """The columns that every stream of this mode has."""
        if self.mode is Mode.SUMMARY:
            return PROCESS if self.of_processes else OF_INTERVAL
        return HEADER if self.mode is Mode.EVENTS else SAMPLED

    def layout(self, btf: Btf) -> Layout:
        """The layout of the stream's rows in the object.

        Raises:
            LayoutMismatch: a struct is missing, or Python and C name different fields.
        """
        suffixes = ("event",) if self.mode is Mode.EVENTS else ("key", "value")
        structs = [self._struct(btf, f"{self.adds_up or self.name}_{suffix}") for suffix in suffixes]
        layout = layout_of(*structs)
        implied = self.implied
        if self.adds_up:
            kept = tuple(field for field in layout.fields if field.name in implied or field.name in self.columns)
            layout = replace(layout, fields=kept)
        declared = set(self.columns) | set(self.hidden)
        there = {f.name for f in layout.fields}
        found = there - set(implied)
        lacking = (declared - found) | (set(implied) - there - set(OF_INTERVAL))
        complaints = [f"C lacks '{name}'" for name in sorted(lacking)]
        complaints += [f"Python lacks '{name}'" for name in sorted(found - declared)]
        if complaints:
            raise LayoutMismatch(f"stream '{self.name}', struct {structs[0].name}: {', '.join(complaints)}")
        return layout

    def _struct(self, btf: Btf, name: str) -> Struct:
        struct = btf.struct(name)
        if struct is None:
            raise LayoutMismatch(f"stream '{self.name}': the object has no struct {name}; is SCOPE_STREAM declared?")
        return struct

    def schema(self, layout: Layout) -> pa.Schema:
        """The Arrow schema of the stream's batches: the common columns, the derived ones, then the stream's own."""
        types = {f.name: f.arrow for f in layout.fields}
        if self.mode is not Mode.EVENTS:
            types |= {name: pa.uint64() for name in INTERVAL.names or ()}
        types |= {name: derived.arrow for name, derived in self.made.columns.items()}
        types |= dict.fromkeys(self.names.columns if self.names else (), pa.string())
        return pa.schema([pa.field(name, types[name]) for name in self.described()])

    def described(self) -> dict[str, Column]:
        """All columns in order, with their meanings."""
        derived = {name: derived.column for name, derived in self.made.columns.items()}
        if self.names:
            derived |= self.names.columns
        return dict(self.implied) | derived | dict(self.columns)
