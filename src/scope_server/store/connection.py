"""The writers' connection: ADBC, whose ingest of columns and whose statements share a transaction."""

import contextlib
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from scope_server.errors import StoreUnavailable

# SQLSTATE classes that say something of the data, not of the moment: data exceptions and violated constraints.
_OF_DATA = ("22", "23")


class DataRefused(Exception):
    """PostgreSQL refused the data itself; the same data will be refused again. The transaction is rolled back."""


class WriterConnection:
    """One connection and the transaction open on it. For one thread.

    Raises:
        StoreUnavailable: from everything, if the database went away or fails for a passing reason. The connection is
            closed then.
        DataRefused: from statements, if it is the data's fault.
    """

    def __init__(self, conninfo: str) -> None:
        try:
            self._connection = adbc.connect(conninfo, autocommit=False)
            self._cursor = self._connection.cursor()
        except adbc.Error as error:
            raise StoreUnavailable(_first_line(error)) from error
        self.open = True

    def query(self, statement: str, parameters: dict[str, pa.Array] | None = None) -> list[dict[str, Any]]:
        """Runs a statement; each parameter is an array, in the order of $1, $2, ... Returns its rows."""
        bound = None
        if parameters is not None:
            lists = [pa.array([values], pa.list_(values.type)) for values in parameters.values()]
            bound = pa.record_batch(lists, names=list(parameters))
        try:
            self._cursor.execute(statement, bound)
            return list(self._cursor.fetch_arrow_table().to_pylist())
        except adbc.Error as error:
            raise self._judged(error) from error

    def ingest(self, schema: str, table: str, rows: pa.Table) -> None:
        """Appends rows to a table."""
        try:
            self._cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema)
        except adbc.Error as error:
            raise self._judged(error) from error

    def commit(self) -> None:
        """Commits; if this raises it is unknown whether it was."""
        try:
            self._connection.commit()
        except adbc.Error as error:
            raise self._judged(error) from error

    def cancel(self) -> None:
        """Ends the statement that runs now; the only method that another thread may call."""
        with contextlib.suppress(adbc.Error):
            self._connection.adbc_cancel()

    def close(self) -> None:
        """Closes it; what was not committed is rolled back."""
        if self.open:
            self.open = False
            self._cursor.close()
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _judged(self, error: adbc.Error) -> Exception:
        if (error.sqlstate or "").startswith(_OF_DATA):
            try:
                self._connection.rollback()
                return DataRefused(_first_line(error))
            except adbc.Error:
                pass
        self.close()
        return StoreUnavailable(_first_line(error))


def strings(values: Iterable[str | None]) -> pa.Array:
    """A parameter of texts."""
    return pa.array(list(values), pa.string())


def integers(values: Sequence[int | None]) -> pa.Array:
    """A parameter of 64-bit integers."""
    return pa.array(values, pa.int64())


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
