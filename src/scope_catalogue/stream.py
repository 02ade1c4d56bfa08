"""A stream as data: its columns with their types and meanings, and how its rows are added up.

A column's type is Arrow's name of it, such as `uint64` or `dictionary<values=string, indices=int32, ordered=0>`.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from scope_catalogue.codes import Codes
from scope_catalogue.encoding import to_json
from scope_catalogue.literal import ColumnType, column_type
from scope_catalogue.shown import Latest, Rollup, Shown

COMMON = frozenset(
    ("ktime_ns", "interval_ns", "start_ns", "cgroup_id", "pid", "tid", "uid", "cpu", "comm")
)  # columns that streams of many probes have, with the same meaning

_SOME = re.compile(r"(\w+) > 0")


class Mode(StrEnum):
    """What a stream has one row for: each event, each key and interval, or each sampled object."""

    EVENTS = "events"
    SUMMARY = "summary"
    SAMPLES = "samples"


@dataclass(frozen=True)
class Column:
    """The meaning of a column. `unit` is ns, bytes, ... or empty; with `hex`, values are shown in hexadecimal.

    Attributes:
        stack: the texts are call stacks: frames separated by semicolons, outermost first.
        cut_if: a column that is not 0 in rows in which this one lacks the end of its list or the beginning of its path.
        codes: the names that the numbers have; rows keep the numbers.
        identity: the values only tell things apart, or say when something was, such as ids, addresses and times since
            boot: that rows have different ones says nothing about why they differ.
    """

    meaning: str
    unit: str = ""
    hex: bool = False
    stack: bool = False
    cut_if: str = ""
    codes: Codes | None = None
    identity: bool = False

    def cut(self, text: str, value: object) -> str:
        """The text of a value that was cut, with ... where the rest was."""
        return f"{text}..." if isinstance(value, list) else f"...{text}"


@dataclass(frozen=True, kw_only=True)
class TypedColumn(Column):
    """A column with its name and the name of its Arrow type."""

    name: str
    type: str


# What is known of the process of a row, besides its columns. A filter can name these, too.
OF_PROCESS = {
    "container": Column(
        "name of the process's container, or the first 12 characters of its id if the name is not known"
    ),
    "image": Column("image of the container"),
    "pod": Column("name of the container's pod; its uid or id if the name is not known"),
    "namespace": Column("namespace of the pod"),
    "unit": Column("systemd unit of the process"),
}
PROCESS_KEYS = ("pid", "start_ns", "cgroup_id")  # the columns that tell which process
_TEXT = "dictionary<values=string, indices=int32, ordered=0>"


@dataclass(frozen=True)
class DescribedStream:
    """A stream whose rows are stored.

    Attributes:
        columns: in the order of the rows' schema.
        rollup: how the rows are added up by the minute; None: they are counted, by comm if there is such a column.
        latest: which states the rows describe; None: none.
        failed: which rows failed, a filter of numbers such as `ret < 0`; empty: none. See `failures`.
        shown: how the rows are shown. A description that this version cannot read shows nothing, and is stored.
    """

    name: str
    probe: str
    mode: Mode
    meaning: str
    columns: tuple[TypedColumn, ...]
    rollup: Rollup | None = None
    latest: Latest | None = None
    failed: str = ""
    shown: Shown = field(default_factory=Shown, metadata={"lenient": True})

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the rows' schema."""
        return fingerprint(self.columns)

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits, which differ if anything of the description differs."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()

    @cached_property
    def failures(self) -> str:
        """The column with the number of a row's events that failed; empty: each row is an event, which failed or not.

        If rows stand for several events (`Rollup.count`), it is the column that `failed` compares, as `errors > 0`.
        """
        some = _SOME.fullmatch(self.failed)
        return some[1] if some and self.rollup and self.rollup.count else ""

    @cached_property
    def by_name(self) -> dict[str, TypedColumn]:
        """The columns by name, in order."""
        return {column.name: column for column in self.columns}

    @cached_property
    def types(self) -> dict[str, ColumnType]:
        """The types of what a filter can name: all columns, and what is known of the processes of rows."""
        columns = (*self.columns, *self._of_process(OF_PROCESS))
        return {column.name: column_type(column.type, column.unit, column.codes) for column in columns}

    def with_processes(self, names: Iterable[str]) -> "DescribedStream":
        """The stream with more columns: of these names, those that stand for what is known of the rows' processes."""
        return replace(self, columns=(*self.columns, *self._of_process(names)))

    def _of_process(self, names: Iterable[str]) -> tuple[TypedColumn, ...]:
        if not self.by_name.keys() >= {*PROCESS_KEYS}:
            return ()
        wanted = [name for name in names if name in OF_PROCESS and name not in self.by_name]
        return tuple(TypedColumn(name=name, type=_TEXT, **vars(OF_PROCESS[name])) for name in wanted)


class _Typed(Protocol):
    # A column of ours, or a field of an Arrow schema.
    @property
    def name(self) -> str: ...

    @property
    def type(self) -> object: ...


def fingerprint(columns: Iterable[_Typed]) -> str:
    """16 hexadecimal digits, which differ if the names, types or order of columns differ; also of an Arrow schema."""
    text = "\n".join(f"{column.name} {column.type}" for column in columns)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
