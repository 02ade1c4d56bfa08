"""Streams: the kinds of rows a probe has, with what their columns mean and how they are shown.

The C structs in a probe's object say which columns there are; Python says what they mean, and the two are compared
whenever a layout is read.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.shown import Latest, Live, Rollup, Timeline
from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Btf, Struct
from scope_bpf.layout.fields import Layout, layout_of

Rows = np.ndarray[Any, np.dtype[Any]]
Derive = Callable[[Rows], dict[str, pa.Array]]


class Mode(StrEnum):
    """Whether a stream has a row per event, a row per key and interval, or a row per thing that is looked at."""

    EVENTS = "events"
    SUMMARY = "summary"
    SAMPLES = "samples"


@dataclass(frozen=True)
class Column:
    """What a column means: `unit` is ns, bytes, ... or empty; `hex` shows it as people read it.

    Attributes:
        stack: its texts are stacks, frames outermost first, separated by semicolons.
    """

    meaning: str
    unit: str = ""
    hex: bool = False
    stack: bool = False


@dataclass(frozen=True)
class Derived:
    """A column that user space makes: computed from the others, for whole batches, or sampled."""

    column: Column
    arrow: pa.DataType


@dataclass(frozen=True)
class Names:
    """A text column of a summary, which another stream of the probe gives by key: `text` of `stream` by `keys`."""

    stream: str
    keys: tuple[str, ...]
    text: str
    column: Column


HEADER = {
    "ktime_ns": Column("when, on the clock that runs since boot (CLOCK_BOOTTIME)", "ns"),
    "start_ns": Column("when the process started, on the same clock: tells a reused pid apart", "ns"),
    "cgroup_id": Column("cgroup v2 of the thread"),
    "pid": Column("process, as the initial pid namespace numbers it; absent, with all that is a process's, if of none"),
    "tid": Column("thread"),
    "uid": Column("user, as the initial user namespace numbers it"),
    "cpu": Column("where it happened"),
    "comm": Column("name of the thread"),
}

OF_INTERVAL = {
    "ktime_ns": Column("end of the interval, on the clock that runs since boot (CLOCK_BOOTTIME)", "ns"),
    "interval_ns": Column("length of the interval", "ns"),
}

PROCESS = {
    **OF_INTERVAL,
    "start_ns": HEADER["start_ns"],
    "cgroup_id": Column("cgroup v2 of the process"),
    "pid": HEADER["pid"],
    "uid": HEADER["uid"],
    "comm": Column("name of the process's main thread"),
}

SAMPLED = {"ktime_ns": HEADER["ktime_ns"]}

IDENTITY = ("start_ns", "cgroup_id", "pid", "tid", "uid", "comm")  # absent in rows of no process

INTERVAL = np.dtype([("ktime_ns", "<u8"), ("interval_ns", "<u8")])  # added to a summary's rows by its reader


@dataclass(frozen=True)
class Stream:
    """One kind of rows: `NAME_event` in C, or `NAME_key` and `NAME_value` for a summary; nothing for samples.

    Attributes:
        columns: the members of the struct by name, in any order; the header's and the process's are known.
        derived: columns computed by `derive` from a structured array of the rows; of samples, all columns.
        hidden: members that only `derive` and `null_unless` read.
        null_unless: column -> member; the column is null in rows where the member is 0.
        live: what a live table shows of it.
        also_live: what further tables show of it, each if there is any.
        timeline: what a timeline shows of it.
        names: a text column joined from another stream.
        internal: only read for `names`; no rows of it leave the tracer.
        resolved: columns computed by the probe's resolver.
        of_processes: its rows are of processes; False: a summary, of no state, whose key has no struct scope_process.
        gauge: a summary that tells a state, in every mode: rows for what has changed since the interval before.
        adds_up: another summary of the probe, whose rows it adds up by process; it has nothing of its own in C.
        settled_by: of a summary, an iter program that counts what is not over yet; it is run before each reading, and
            when the trace begins, unless that holds a command back, of which nothing is to be counted yet.
        labels: columns that label the numbers of the latest samples as metrics; none: they are no metrics.
        describes: what a row says of its own process, by field of scope.v1.Process: columns; `failed` names a column
            that is not 0 in rows that say nothing.
        rollup: what its rows are added up to; None: they are counted, by comm if they have it.
        latest: which states its rows tell; None: none.
    """

    name: str
    meaning: str
    columns: Mapping[str, Column]
    mode: Mode = Mode.EVENTS
    derived: Mapping[str, Derived] = field(default_factory=dict)
    derive: Derive | None = None
    resolved: Mapping[str, Derived] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    null_unless: Mapping[str, str] = field(default_factory=dict)
    live: Live = field(default_factory=Live)
    also_live: tuple[Live, ...] = ()
    timeline: Timeline | None = None
    names: Names | None = None
    internal: bool = False
    of_processes: bool = True
    gauge: bool = False
    adds_up: str = ""
    settled_by: str = ""
    labels: tuple[str, ...] = ()
    describes: Mapping[str, str] = field(default_factory=dict)
    rollup: Rollup | None = None
    latest: Latest | None = None

    @property
    def implied(self) -> Mapping[str, Column]:
        """The columns that it has without naming them: of its mode, and of a process."""
        if self.mode is Mode.SUMMARY:
            return PROCESS if self.of_processes else OF_INTERVAL
        return HEADER if self.mode is Mode.EVENTS else SAMPLED

    def layout(self, btf: Btf) -> Layout:
        """The layout of the stream's rows according to the object.

        Raises:
            LayoutMismatch: a struct is missing, or Python and C do not name the same fields.
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
        types |= {name: derived.arrow for name, derived in (*self.derived.items(), *self.resolved.items())}
        if self.names:
            types[self.names.text] = pa.string()
        return pa.schema([pa.field(name, types[name]) for name in self.described()])

    def described(self) -> dict[str, Column]:
        """All columns in order, with what they mean."""
        derived = {name: derived.column for name, derived in (*self.derived.items(), *self.resolved.items())}
        if self.names:
            derived[self.names.text] = self.names.column
        return dict(self.implied) | derived | dict(self.columns)


def fingerprint(schema: pa.Schema) -> str:
    """16 hexadecimal digits that differ when a schema's names, types or order differ."""
    text = "\n".join(f"{column.name} {column.type}" for column in schema)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
