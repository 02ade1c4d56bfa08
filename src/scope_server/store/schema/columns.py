"""Converts a described stream to its table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from scope_catalogue.condition import Condition, columns_read
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.literal import ColumnType
from scope_catalogue.shown import Latest, Rollup
from scope_catalogue.stream import Column, DescribedStream, Mode, TypedColumn
from scope_catalogue.where import read_filter
from scope_server.errors import SchemaConflict
from scope_server.store.dimensions.declared import STACKS, of_column
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.layout.contract import Layout, Record
from scope_server.store.schema.arrow import NUMBERS, arrow_type


class Kind(StrEnum):
    """How a value is stored."""

    PLAIN = "plain"
    KEY = "key"  # of an entry of the column's dimension
    UNSIGNED = "unsigned"  # 64-bit unsigned, stored in a bigint: from 2**63 on, the stored value is negative
    UNSIGNED_LIST = "unsigned_list"


@dataclass(frozen=True)
class StoredColumn:
    """A column of an event table.

    Attributes:
        arrow: the Arrow type that is received.
        sql: the SQL type.
        stored: the Arrow type that is written.
        dimension: whose keys are stored in place of texts, if any.
    """

    name: str
    arrow: pa.DataType
    sql: str
    stored: pa.DataType
    kind: Kind = Kind.PLAIN
    dimension: Dimension | None = None

    @property
    def is_list(self) -> bool:
        """Whether the values are lists."""
        return self.sql.endswith("[]")

    @property
    def is_text(self) -> bool:
        """Whether the values are texts that are compared as a whole, unlike stacks."""
        return self.dimension is not None and self.dimension.parts is None

    @property
    def is_stack(self) -> bool:
        """Whether the values are call stacks."""
        return self.dimension is STACKS

    @property
    def recorded_kind(self) -> str:
        """The kind as `store.streams` has it."""
        return self.dimension.kind if self.dimension else self.kind.value


@dataclass(frozen=True)
class StreamTable:
    """A stream of the catalogue, and its table.

    Attributes:
        schema: Arrow schema of received batches.
        columns: the table's columns besides the common ones (`BASE`).
        meanings: meanings of the columns in the catalogue, with units.
        types: types of the columns, for `read_filter`.
        described: the stream as its probe describes it.
        rollup: how its rows are added up.
        layout: how they lie in the database.
        added_up: which rows are; None: all.
        failed: which of them failed; None: none, or `described.failures` says how many of their events.
        failures: what tells failures, for people; empty: nothing does.
        latest: which states its rows describe, if any.
    """

    name: str
    probe: str
    mode: Mode
    schema: pa.Schema
    fingerprint: str
    columns: tuple[StoredColumn, ...]
    meaning: str
    meanings: Mapping[str, str]
    types: Mapping[str, ColumnType]
    described: DescribedStream
    rollup: Rollup
    layout: Layout
    added_up: Condition | None = None
    failed: Condition | None = None
    failures: str = ""
    latest: Latest | None = None

    @property
    def of_processes(self) -> bool:
        """Whether the rows are about processes."""
        return "pid" in self.schema.names

    @property
    def records(self) -> list[Record]:
        """The columns as a layout takes them."""
        return [{"name": one.name, "sql": one.sql, "kind": one.recorded_kind} for one in self.columns]

    @property
    def keyed(self) -> tuple[str, ...]:
        """The columns with keys of dimensions."""
        return tuple(column.name for column in self.columns if column.dimension)

    def is_of_process(self, name: str) -> bool:
        """Whether a name stands for something that is stored with the rows' processes."""
        return self.of_processes and (name in IN_PROCESS or (name in OF_PROCESS and self.column(name) is None))

    def column(self, name: str) -> StoredColumn | None:
        """The column with this name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def dimension(self, key: str) -> Dimension:
        """The dimension of a key of the rollup."""
        column = self.column(key)
        assert column and column.dimension, key  # `stream_table` has checked it
        return column.dimension


# Columns of every row besides the stream's own.
BASE = {
    "time": "timestamptz NOT NULL",
    "ktime_ns": "bigint NOT NULL",
    "batch": "bigint NOT NULL",
    "process": "bigint NOT NULL",
    "machine": "integer NOT NULL",
    "ordinal": "integer NOT NULL",
}
IN_PROCESS = ("pid", "start_ns")  # stored in store.processes; rows without a process refer to an entry with pid 0
# What is known of a process besides these, as SQL; `p` is store.processes.
OF_PROCESS = {
    "container": "coalesce(p.container, left(p.container_id, 12))",
    "image": "p.image",
    "pod": "p.pod",
    "namespace": "p.namespace",
    "unit": "p.unit",
}
# Columns of a block besides the rows' columns. A block's rows are of one day, in order of time.
OF_BLOCK = {
    "first_time": "timestamptz NOT NULL",
    "last_time": "timestamptz NOT NULL",
    "row_count": "integer NOT NULL",
    "machines": "bigint[] NOT NULL",
    "processes": "bigint[] NOT NULL",
    "names": "bigint[] NOT NULL",
}
# Columns of a group of states besides those that identify it (`store/latest/`).
OF_GROUP = {
    "total": "numeric NOT NULL",
    "process": "bigint NOT NULL",
    "machine": "integer NOT NULL",
    "held": "integer NOT NULL",
    "day": "date NOT NULL",
}
# Columns of a rollup besides its keys (`store/rollups/`).
OF_ROLLUP = {
    "hour": "timestamptz NOT NULL",
    "machine": "integer NOT NULL",
    "groups": "integer NOT NULL",
    "first_second": "integer",
    "level": "smallint NOT NULL",
    "minutes": "smallint[]",
    "counts": "bigint[]",
    "sums": "bigint[]",
    "failed": "bigint[]",
    "bucket_minutes": "smallint[]",
    "buckets": "smallint[]",
    "bucket_counts": "bigint[]",
    "per_second": "bigint[]",
}
WHOLE = {"smallint": -(1 << 15), "integer": -(1 << 31), "bigint": -(1 << 63)}  # smallest number of each type
# `type` is the stream's name in rows as JSON.
RESERVED = (*(set(BASE) - {"ktime_ns"}), *OF_BLOCK, "machine_id", "hostname", "task_id", "type")

_LONGEST_NAME = 54  # maximum length of a table's name; partitions add 9 characters for the day


def stored_column(column: TypedColumn, arrow: pa.DataType) -> StoredColumn:
    """The stored column for this Arrow type.

    Raises:
        SchemaConflict: the type cannot be stored.
    """
    name = column.name
    if arrow in NUMBERS and not column.stack:
        sql, stored = NUMBERS[arrow]
        return StoredColumn(name, arrow, sql, stored, Kind.UNSIGNED if arrow == pa.uint64() else Kind.PLAIN)
    if pa.types.is_dictionary(arrow) and arrow.value_type == pa.string():
        return StoredColumn(name, arrow, "bigint", pa.int64(), Kind.KEY, of_column(column))
    is_list = pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow)
    if is_list and arrow.value_type in NUMBERS and arrow.value_type != pa.binary():
        sql, stored = NUMBERS[arrow.value_type]
        kind = Kind.UNSIGNED_LIST if arrow.value_type == pa.uint64() else Kind.PLAIN
        return StoredColumn(name, arrow, f"{sql}[]", pa.list_(stored), kind)
    raise SchemaConflict(f"column '{name}': Arrow's type {arrow} cannot be stored")


def stream_table(stream: DescribedStream, layout: Layout) -> StreamTable:
    """The table of a stream, whose rows lie as the layout says.

    Raises:
        SchemaConflict: a column has the name of a common column, or a type that cannot be stored; or the stream's name
            is too long.
    """
    if len(stream.name) > _LONGEST_NAME:
        raise SchemaConflict(f"stream '{stream.name}': its name has more than {_LONGEST_NAME} characters")
    if taken := [column.name for column in stream.columns if column.name in RESERVED]:
        raise SchemaConflict(
            f"stream '{stream.name}': the name of column '{taken[0]}' is used for every stream; choose another"
        )
    schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in stream.columns])
    own = [column for column in stream.columns if column.name not in BASE and column.name not in IN_PROCESS]
    columns = tuple(stored_column(column, schema.field(column.name).type) for column in own)
    return StreamTable(
        name=stream.name,
        probe=stream.probe,
        mode=stream.mode,
        schema=schema,
        fingerprint=stream.fingerprint,
        columns=columns,
        meaning=stream.meaning,
        meanings={column.name: _said(column) for column in stream.columns},
        types=stream.types,
        described=stream,
        rollup=(rollup := _rollup(stream, columns)),
        layout=layout,
        added_up=_condition(stream, columns, rollup.where),
        failed=None if stream.failures else _condition(stream, columns, stream.failed),
        failures=stream.failures or stream.failed,
        latest=_latest(stream, columns),
    )


def _rollup(stream: DescribedStream, columns: tuple[StoredColumn, ...]) -> Rollup:
    texts = {column.name for column in columns if column.is_text}
    types = {column.name: column.sql for column in columns if not column.dimension}
    rollup = stream.rollup or Rollup(by=("comm",) if "comm" in texts else ())
    added_up = (rollup.count, rollup.measured, stream.failures)
    unknown = [name for name in added_up if name and types.get(name) not in WHOLE]
    unknown += [rollup.histogram] if rollup.histogram and types.get(rollup.histogram) != "bigint[]" else []
    unknown += [name for name in rollup.by if name not in texts]
    keys = [column for name in rollup.by for column in keys_of_rollup(name)]
    unknown += [name for name in keys if name in OF_ROLLUP or keys.count(name) > 1]
    if unknown:
        raise SchemaConflict(f"stream '{stream.name}': its rollup needs '{unknown[0]}', which is not such a column")
    return rollup


def _condition(stream: DescribedStream, columns: tuple[StoredColumn, ...], where: str) -> Condition | None:
    """A filter on rows in their stored form, which have keys in place of texts: it can only compare whole numbers."""
    if not where:
        return None
    try:
        condition = read_filter(where, stream.types)
    except InvalidFilter as error:
        raise SchemaConflict(f"stream '{stream.name}': its rollup needs a filter that is not valid: {error}") from None
    whole = {column.name for column in columns if not column.dimension and column.sql in WHOLE}
    if strange := columns_read(condition) - whole:
        raise SchemaConflict(
            f"stream '{stream.name}': its rollup's filter compares '{min(strange)}', which is no number"
        )
    return condition


def _latest(stream: DescribedStream, columns: tuple[StoredColumn, ...]) -> Latest | None:
    latest = stream.latest
    if latest is None:
        return None
    types = {column.name: column.sql for column in columns}
    used = (*latest.totals, *latest.means, *latest.means.values(), *latest.held, latest.ended)
    unknown = [name for name in used if name and name not in types]
    unknown += [name for name in (*latest.key, *latest.by) if types.get(name) not in WHOLE or name in OF_GROUP]
    keyed = {column.name for column in columns if column.dimension}
    unknown += [name for name in latest.totals[:1] if types.get(name) not in WHOLE]
    unknown += [name for name in (*used, *latest.means.values()) if name in keyed]
    if unknown or not latest.totals:
        lacking = f"'{unknown[0]}', which is not such a column" if unknown else "a total that ranks them"
        raise SchemaConflict(f"stream '{stream.name}': its latest states need {lacking}")
    return latest


def keys_of_rollup(name: str) -> tuple[str, str]:
    """The columns of a rollup for a column that groups its rows: keys per group, and per bucket of the histograms."""
    return name, f"bucket_{name}"


def _said(column: Column) -> str:
    return f"{column.meaning} ({column.unit})" if column.unit else column.meaning
