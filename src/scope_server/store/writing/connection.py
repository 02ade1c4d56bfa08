"""The writers' connection. It uses ADBC, where statements and the ingest of columns share a transaction."""

import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import adbc_driver_manager as adbc
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scope_server.errors import StoreUnavailable
from scope_server.store.writing.driver import Driver
from scope_server.store.writing.wire import with_arrays

# SQLSTATEs of temporary errors: connection, resources, operator, disk, deadlock, lock timeout, standby, and damage to
# the database's own files. The same statements may succeed later.
_OF_THE_MOMENT = ("08", "53", "57", "58", "40", "55P03", "25006", "XX001", "XX002")
# A table or column is missing, or a column has another type than the data.
_OF_THE_SCHEMA = ("42", "08P01")
_NO_PARTITION = (
    "no partition of relation"  # a day's partition was just dropped; the SQLSTATE is that of a violated CHECK, 23514
)
_LOCK_S = 10  # after this time, a writer reports that it waits


class DataRefused(Exception):
    """PostgreSQL refused a statement because of its data. The transaction is rolled back.

    Attributes:
        of_schema: a table or column has changed.
    """

    def __init__(self, reason: str, of_schema: bool = False) -> None:
        super().__init__(reason)
        self.of_schema = of_schema


class WriterConnection:
    """One connection with its open transaction. For one thread.

    Raises:
        StoreUnavailable: from all methods, if the database is away or fails temporarily. The connection is then closed.
        DataRefused: from statements, for other reasons.
    """

    def __init__(self, conninfo: str) -> None:
        try:
            self._driver = Driver(_careful(conninfo))
        except adbc.Error as error:
            raise StoreUnavailable(_said(error)) from error
        self.open = True
        self._freeing = threading.Lock()  # the driver may not be told to cancel while it frees a connection

    def query(self, statement: str, parameters: dict[str, pa.Array] | None = None) -> list[dict[str, Any]]:
        """Runs a statement; each parameter is an array, in the order of $1, $2, ... Returns its rows."""
        return list(self.table(statement, parameters).to_pylist())

    def table(self, statement: str, parameters: dict[str, pa.Array] | None = None) -> pa.Table:
        """Like `query`, but returns columns."""
        bound = None
        if parameters is not None:
            lists = [pa.array([values], pa.list_(values.type)) for values in parameters.values()]
            bound = pa.record_batch(lists, names=list(parameters))
        try:
            return self._driver.execute(statement, bound)
        except adbc.Error as error:
            raise self._judged(error) from error

    def ingest(self, schema: str, table: str, rows: pa.Table) -> None:
        """Appends rows to a table."""
        try:
            self._driver.ingest(schema, table, with_arrays(rows))
        except adbc.Error as error:
            raise self._judged(error) from error

    def vacuum(self, schema: str, table: str) -> None:
        """Frees the space of deleted rows. Commits first; skips a locked table."""
        self.commit()
        try:
            self._driver.set_autocommit(True)
            try:
                self._driver.execute(f'VACUUM (SKIP_LOCKED) "{schema}"."{table}"')
            finally:
                self._driver.set_autocommit(False)
        except adbc.Error as error:
            raise self._judged(error) from error

    def commit(self) -> None:
        """Commits. If this raises StoreUnavailable, it is unknown whether the commit succeeded."""
        try:
            self._driver.commit()
        except adbc.Error as error:
            raise self._judged(error) from error

    def rollback(self) -> None:
        """Rolls the transaction back."""
        try:
            self._driver.rollback()
        except adbc.Error as error:
            self.close()
            raise StoreUnavailable(_said(error)) from error

    def cancel(self) -> None:
        """Cancels the current statement; the only method that another thread may call."""
        with self._freeing, contextlib.suppress(adbc.Error):
            if self.open:
                self._driver.cancel()

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        with self._freeing:
            if self.open:
                self.open = False
                self._driver.close()

    def _judged(self, error: adbc.Error) -> Exception:
        state = error.sqlstate or ""
        # The driver checks tables and columns itself; its errors have no SQLSTATE.
        of_schema = state.startswith(_OF_THE_SCHEMA) if state else isinstance(error, adbc.ProgrammingError)
        of_schema = of_schema or _NO_PARTITION in str(error)  # the private PostgreSQL speaks English
        if (of_schema or not state.startswith(_OF_THE_MOMENT)) and self._answers():
            return DataRefused(_said(error), of_schema)
        self.close()
        return StoreUnavailable(_said(error))

    def _answers(self) -> bool:
        # The driver's own errors, about columns that it cannot send, have no SQLSTATE; nor has a lost connection.
        try:
            self._driver.rollback()
            self._driver.execute("SELECT 1")
            self._driver.rollback()
        except adbc.Error:
            return False
        return True


def strings(values: Iterable[str | None]) -> pa.Array:
    """A parameter of texts."""
    return pa.array(list(values), pa.string())


def integers(values: Iterable[int | None]) -> pa.Array:
    """A parameter of 64-bit integers."""
    return pa.array(list(values), pa.int64())


def blobs(values: Iterable[bytes | None]) -> pa.Array:
    """A parameter of bytes."""
    return pa.array(list(values), pa.binary())


def moments(values_ns: Sequence[int | None]) -> pa.Array:
    """A parameter of times, given in nanoseconds since 1970 UTC."""
    return pa.array([None if ns is None else ns // 1000 for ns in values_ns], pa.timestamp("us", "UTC"))


def _careful(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    options = f"{given.get('options') or ''} -c lock_timeout={_LOCK_S}s".strip()
    name = given.get("application_name") or "scope writer"
    return make_conninfo(conninfo, options=options, application_name=name)


def _said(error: Exception) -> str:
    # PostgreSQL's message in one line, without the statement and the driver's prefix.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    from_server = [said.strip() for line in lines if (said := line.partition("ERROR:")[2])]
    return next(iter(from_server + lines), type(error).__name__)
