"""Stores groups of deliveries. A delivery that fails alone is quarantined."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scope_catalogue.stream import DescribedStream
from scope_server.errors import GroupFailed, Rejected, SchemaConflict, StoreUnavailable
from scope_server.store.schema.learning import learn
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.connection import DataRefused, WriterConnection
from scope_server.store.writing.delivery import Batch, Delivery, Outcome, Verdict
from scope_server.store.writing.rejections import KEPT_BYTES, legible
from scope_server.store.writing.transaction import Session

_log = logging.getLogger(__name__)


class Writer:
    """Writes over its own connection, and reconnects after a loss. For one thread.

    Args:
        conninfo: a libpq connection string.
        tables: the known streams by name.
        kept_bytes: maximum size of kept rejected records.
    """

    def __init__(self, conninfo: str, tables: Tables, kept_bytes: int = KEPT_BYTES) -> None:
        self._conninfo = conninfo
        self._tables = tables
        self._kept_bytes = kept_bytes
        self._session: Session | None = None

    def write(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Stores deliveries that were not stored before; returns the outcome of each after the commit.

        A delivery that fails permanently alone is refused, and its events are counted as lost.

        Raises:
            GroupFailed: of several deliveries, some fail permanently; nothing was stored.
            StoreUnavailable: the database cannot be used now; deliver the group again. Some deliveries may have been
                stored.
        """
        if not deliveries:
            return []
        try:
            return self._attempt(deliveries)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(deliveries) > 1:
                raise GroupFailed(str(error)) from error
            return [self._alone(deliveries[0], error)]

    def learn(self, stream: DescribedStream) -> None:
        """Makes the table of a described stream, unless its rows can be stored already.

        Raises:
            Rejected: no table can be made for it.
            StoreUnavailable: the database cannot be used now.
        """
        try:
            lacking = self._tables.lack(stream)
        except SchemaConflict as error:
            raise Rejected("other_schema", str(error)) from None
        if lacking:
            learn(self._conninfo, self._tables, stream)

    def retry(self, entry: int, delivery: Delivery) -> None:
        """Stores the delivery of a quarantine entry, and undoes the entry and its counted loss.

        Raises:
            Rejected: the delivery still cannot be stored; nothing has changed.
            StoreUnavailable: the database cannot be used now.
        """
        try:
            self._attempt([delivery], taken_back=entry)
        except DataRefused as error:
            raise Rejected("refused", str(error)) from error

    def cancel(self) -> None:
        """Cancels the current statement. For other threads."""
        if session := self._session:
            session.connection.cancel()

    def close(self) -> None:
        """Closes the connection."""
        if self._session:
            self._session.connection.close()
            self._session = None

    def _attempt(self, deliveries: Sequence[Delivery], taken_back: int | None = None) -> list[Outcome]:
        if self._session is None or not self._session.connection.open:
            self._session = Session(WriterConnection(self._conninfo), self._tables, self._kept_bytes)
        session = self._session
        try:
            return session.write(deliveries, taken_back)
        except StoreUnavailable:
            raise
        except Exception:
            session.forget()
            raise

    def _alone(self, delivery: Delivery, error: Exception) -> Outcome:
        # The caches may be outdated, for example after a partition was dropped: try again.
        try:
            return self._attempt([delivery])[0]
        except StoreUnavailable:
            raise
        except Exception as again:
            error = again
        where = {"run": delivery.run_id, "reason": str(error)}
        if isinstance(error, DataRefused) and error.of_schema:
            _log.error("the database's tables do not match this server", extra=where)
            return Outcome(
                Verdict.LATER, f"the database's tables do not match the server: {legible(str(error))}", "schema"
            )
        if not isinstance(error, DataRefused | Rejected):
            _log.error("a record could not be written", extra=where, exc_info=error)
        return self._refuse(delivery, _rejection(error), where)

    def _refuse(self, delivery: Delivery, rejected: Rejected, where: Mapping[str, str]) -> Outcome:
        content = delivery.content if isinstance(delivery.content, Batch) else None
        bare = replace(content, rows=None, processes=()) if content else None
        reason = ""
        # The record's accounts may be the cause; a record without rows has nothing else.
        for accounts in (delivery.accounts, ()) if content else ((),):
            try:
                outcome = self._attempt([replace(delivery, content=bare, accounts=accounts, rejected=rejected)])[0]
            except StoreUnavailable:
                raise
            except Exception as failed:
                reason = legible(str(failed))
                _log.error("a record could be neither stored nor kept", extra=where, exc_info=failed)
            else:
                return outcome
        return Outcome(Verdict.LATER, f"the server could not keep the record: {reason}", "unkept")


def _rejection(error: Exception) -> Rejected:
    if isinstance(error, Rejected):
        return error
    if isinstance(error, DataRefused):
        return Rejected("refused", f"PostgreSQL refused the record: {error}")
    return Rejected("failed", f"the server failed: {type(error).__name__}: {error}")
