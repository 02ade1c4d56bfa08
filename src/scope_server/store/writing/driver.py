"""The ADBC driver of PostgreSQL: one connection with a statement that is used again and again.

The library's DB-API layer does the same, and imports polars and pyarrow.dataset: 50 MB and 0.3 s of CPU time for each
server.
"""

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import (
    INGEST_OPTION_MODE,
    INGEST_OPTION_MODE_APPEND,
    INGEST_OPTION_TARGET_TABLE,
    AdbcConnection,
    AdbcStatement,
    StatementOptions,
)
from adbc_driver_manager._reader import AdbcRecordBatchReader

# Columns have only PostgreSQL's own types. To ask for the others takes 0.1 s of CPU time for each connection, unless
# they share a handle, which connections of several threads may not (arrow-adbc's issue 4753).
_TYPES = {"adbc.postgresql.type_resolver_mode": "builtin"}


class Driver:
    """A connection; a transaction begins with the first statement. For one thread.

    Raises:
        adbc_driver_manager.Error: from all methods.
    """

    def __init__(self, conninfo: str) -> None:
        self._database = adbc_driver_postgresql.connect(conninfo, _TYPES)
        try:
            self._connection = AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise
        self._connection.set_autocommit(False)
        self._statement, self._prepared = AdbcStatement(self._connection), ""

    def execute(self, statement: str, bound: pa.RecordBatch | None = None) -> pa.Table:
        """Runs a statement, prepared if it is that of the last time, and returns its rows."""
        if statement != self._prepared:
            self._prepared = ""
            self._statement.set_sql_query(statement)
            self._statement.prepare()
            self._prepared = statement
        if bound is not None:
            self._statement.bind(bound)
        stream, _ = self._statement.execute_query()
        # This reader's errors, other than those of pyarrow's own, say what PostgreSQL says.
        with AdbcRecordBatchReader._import_from_c(stream.address) as reader:
            return reader.read_all()

    def ingest(self, schema: str, table: str, rows: pa.Table) -> None:
        """Appends rows to a table, by COPY."""
        self._prepared = ""
        options = {
            INGEST_OPTION_TARGET_TABLE: table,
            INGEST_OPTION_MODE: INGEST_OPTION_MODE_APPEND,
            StatementOptions.INGEST_TARGET_DB_SCHEMA.value: schema,
        }
        self._statement.set_options(**options)
        self._statement.bind_stream(rows)
        self._statement.execute_update()

    def set_autocommit(self, enabled: bool) -> None:
        """Whether each statement is a transaction of its own; no transaction may be open."""
        self._connection.set_autocommit(enabled)

    def commit(self) -> None:
        """Commits the transaction."""
        self._connection.commit()

    def rollback(self) -> None:
        """Rolls the transaction back."""
        self._connection.rollback()

    def cancel(self) -> None:
        """Cancels the current statement; any thread may call this."""
        self._connection.cancel()

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        self._statement.close()
        self._connection.close()
        self._database.close()
