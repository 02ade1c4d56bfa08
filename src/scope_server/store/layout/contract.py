"""What a layout does: it makes tables and their days, writes rows, reads those of a window, tells sizes, drops a day.

Rows lie together in blocks, whatever a layout takes for one. A query has conditions on rows, which decide, and on
blocks, which only save work: a block that does not meet them has no wanted row. The columns of a block that conditions
may name are `first_time`, `last_time` and `row_count`; others are asked of `holding`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Protocol

import psycopg
import pyarrow as pa
from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.schema.day_tables import DayTable, Measured
from scope_server.store.schema.partitions import Partition
from scope_server.store.writing.connection import WriterConnection

Record = Mapping[str, str]  # of a column, as stored in store.streams
Connection = psycopg.Connection[Any]
Conditions = tuple[list[sql.Composable], list[sql.Composable]]  # on rows, on blocks


class Lookup(sql.Composed):
    """A condition on rows that PostgreSQL may turn into a join with another relation, such as an EXISTS."""


# Where a row is: a partition, a block, a place in the block. No column has a blank in its name.
PART, BLOCK, PLACE = '"its part"', '"its block"', '"its place"'


class Step(Protocol):
    """One step of work on rows."""

    def __call__(self, connection: WriterConnection, everything: bool = False) -> bool:
        """Returns whether there was something to do; `everything` does also what could wait."""


class Layout(Protocol):
    """How the rows of streams lie in a database. Queries are composed as SQL and run by others."""

    @property
    def name(self) -> str:
        """The layout's name, in settings and in the database."""

    @property
    def kept(self) -> Mapping[str, str]:
        """The schemas that have a table of each stream's rows, with how rows lie there, for people."""

    @property
    def meanings(self) -> Mapping[str, str]:
        """Meanings of the columns that these tables have besides those of rows."""

    # ---- tables and days

    def prepare(self, connection: Connection) -> None:
        """Prepares an empty database, in the open transaction.

        Raises:
            SchemaConflict: it cannot have this layout.
        """

    def creation(self, schema: str, stream: str, columns: Iterable[Record]) -> sql.Composed:
        """Statements that make a stream's table in one of the schemas."""

    def addition(self, schema: str, stream: str, columns: Sequence[Record]) -> sql.Composed:
        """Statements that add columns to it."""

    def day(self, stream: str, day: date) -> Collection[Partition]:
        """The partitions that have to be there before rows of a day are written."""

    # ---- writing

    def write(self, connection: WriterConnection, stream: str, keyed: Sequence[str], rows: pa.Table) -> None:
        """Appends rows, in the open transaction.

        Args:
            keyed: columns with keys of dimensions.
            rows: at least one, with the columns of `BASE` and of the stream, as stored.

        Raises:
            StoreUnavailable, DataRefused: see `WriterConnection`.
        """

    def packing(self, streams: Collection[str]) -> Step:
        """Background work that makes written rows small, step by step."""

    # ---- reading

    def rows(
        self,
        stream: str,
        columns: Iterable[Record],
        where: Sequence[sql.Composable] = (),
        blocks: Sequence[sql.Composable] = (),
        *,
        as_stored: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> sql.Composed:
        """A query of the stream's rows with all columns, those of `BASE` first.

        Args:
            columns: the stream's.
            where: conditions on rows, which are named `r`; those that may become a join are a `Lookup`.
            blocks: conditions on blocks; without any, all blocks are read.
            as_stored: columns with lists that stay as they lie, which is less work; cast them to their type.
            only: the columns that are selected, which is less work for many rows; None: all.
        """

    def places(
        self,
        stream: str,
        columns: Iterable[Record],
        where: Sequence[sql.Composable],
        blocks: Sequence[sql.Composable],
        also: Sequence[str] = (),
    ) -> sql.Composed:
        """A query of the places of rows, for `rows_at`, with their order: time, batch, ordinal.

        Other columns are read only if `where` names them.

        Args:
            also: columns that are selected, too.
        """

    def rows_at(
        self,
        stream: str,
        columns: Iterable[Record],
        found: sql.Composable,
        where: Sequence[sql.Composable],
        *,
        with_block: bool = False,
    ) -> sql.Composed:
        """A query of the rows at the places in the table `found`.

        Args:
            where: the conditions with which the places were found.
            with_block: the rows also have the place of their block, as `found` has it.
        """

    def within(self, since: sql.Composable | None, until: sql.Composable | None) -> Conditions:
        """Conditions for times from `since` (included) to `until` (excluded)."""

    def spans(self, spans: Sequence[tuple[datetime, datetime]]) -> Conditions:
        """Conditions for times in any of these spans, in order; rows are already chosen, so they only save work."""

    def holding(self, held: str, keys: Sequence[int]) -> sql.Composable | None:
        """The condition on blocks that hold one of these keys among their `machines`, `processes` or `names`; None if
        this cannot be told.
        """

    # ---- blocks

    def blocks(self, stream: str) -> Sequence[sql.Composable]:
        """The relations whose rows are the stream's blocks."""

    @property
    def block(self) -> sql.SQL:
        """Selects `part` and `place`, which tell one block from all others."""

    def chosen(self, blocks: Iterable[tuple[int, str]]) -> Conditions:
        """Conditions for the rows of these blocks, each given by its part and place."""

    # ---- references and sizes

    def references(self, stream: str, columns: Iterable[Record], dimension: Dimension) -> Sequence[sql.Composable]:
        """Queries of the keys of a dimension that the stream's rows refer to, as `id`."""

    def measured(self, connection: Connection) -> Measured:
        """The size of all rows, and of each day."""

    def drop(self, connection: Connection, one: DayTable) -> bool:
        """Drops a day of rows; returns whether nobody was reading it.

        Raises:
            psycopg.Error: the database went away.
        """
