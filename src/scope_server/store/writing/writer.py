"""Stores groups of deliveries; what cannot be stored is found by halving, and kept apart."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scope_server.errors import Rejected, StoreUnavailable
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.connection import DataRefused, WriterConnection
from scope_server.store.writing.delivery import Batch, Delivery, Outcome, Verdict
from scope_server.store.writing.rejections import KEPT_BYTES, legible
from scope_server.store.writing.transaction import Session

_log = logging.getLogger(__name__)


class Writer:
    """Writes over a connection of its own, which it makes anew when it was lost. For one thread.

    Args:
        conninfo: a libpq connection string.
        tables: the streams that can be stored, by name.
        kept_bytes: at most so many of rejected records are kept.
    """

    def __init__(self, conninfo: str, tables: Mapping[str, StreamTable], kept_bytes: int = KEPT_BYTES) -> None:
        self._conninfo = conninfo
        self._tables = tables
        self._kept_bytes = kept_bytes
        self._session: Session | None = None

    def write(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Stores what was not stored before, and says for each how it ended, once that is committed.

        A group that fails for anything but the moment is halved until what is bad stands alone: that is refused, with
        its events booked as lost, and the others are stored.

        Raises:
            StoreUnavailable: the database cannot be used now; deliver all of it again. Some may have been stored.
        """
        if not deliveries:
            return []
        try:
            return self._attempt(deliveries)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(deliveries) == 1:
                return [self._alone(deliveries[0], error)]
        half = len(deliveries) // 2
        return [*self.write(deliveries[:half]), *self.write(deliveries[half:])]

    def retry(self, entry: int, delivery: Delivery) -> None:
        """Stores a delivery that an entry of the quarantine keeps, and undoes the entry and what was booked for it.

        Raises:
            Rejected: it cannot be stored still; nothing has changed.
            StoreUnavailable: the database cannot be used now.
        """
        try:
            self._attempt([delivery], taken_back=entry)
        except DataRefused as error:
            raise Rejected("refused", str(error)) from error

    def cancel(self) -> None:
        """From another thread: ends the statement that runs now, if one does."""
        session = self._session
        if session and session.connection.open:
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
        # What was known may have been out of date, such as a partition that was dropped: so once more.
        try:
            return self._attempt([delivery])[0]
        except StoreUnavailable:
            raise
        except Exception as again:
            error = again
        where = {"run": delivery.run_id, "reason": str(error)}
        if isinstance(error, DataRefused) and error.of_schema:
            _log.error("the database's tables are not this server's", extra=where)
            return Outcome(Verdict.LATER, f"the server's tables are out of order: {legible(str(error))}", "schema")
        if not isinstance(error, DataRefused | Rejected):
            _log.error("a record could not be written", extra=where, exc_info=error)
        return self._refuse(delivery, _rejection(error), where)

    def _refuse(self, delivery: Delivery, rejected: Rejected, where: Mapping[str, str]) -> Outcome:
        content = delivery.content if isinstance(delivery.content, Batch) else None
        bare = replace(content, rows=None, processes=()) if content else None
        reason = ""
        # The books that came with it may be what is at fault; of a record without rows they are all there is.
        for accounts in (delivery.accounts, ()) if content else ((),):
            try:
                outcome = self._attempt([replace(delivery, content=bare, accounts=accounts, rejected=rejected)])[0]
            except StoreUnavailable:
                raise
            except Exception as failed:
                reason = legible(str(failed))
                _log.error("a record could be neither stored nor kept", extra=where, exc_info=failed)
            else:
                _log.warning("record refused", extra={**where, "code": rejected.code})
                return outcome
        return Outcome(Verdict.LATER, f"the server could not keep it: {reason}", "unkept")


def _rejection(error: Exception) -> Rejected:
    if isinstance(error, Rejected):
        return error
    if isinstance(error, DataRefused):
        return Rejected("refused", f"PostgreSQL refused it: {error}")
    return Rejected("failed", f"the server failed: {type(error).__name__}: {error}")
