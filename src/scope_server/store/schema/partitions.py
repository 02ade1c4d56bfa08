"""Partitions, one per day (UTC) with rows, created when the first row of the day arrives."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from scope_server.store.writing.connection import WriterConnection

_log = logging.getLogger(__name__)

_ATTACHED = 'SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass(\'"{schema}"."{name}"\') AND NOT inhdetachpending'
_MAKE = 'CREATE TABLE "{schema}"."{name}" (LIKE "{schema}"."{table}" INCLUDING ALL)'
_ATTACH = (
    'ALTER TABLE "{schema}"."{table}" ATTACH PARTITION "{schema}"."{name}" FOR VALUES FROM (\'{begin}\') TO (\'{end}\')'
)
_DAY_NS = 24 * 3600 * 10**9


def day_of(ns: int) -> date:
    """The day (UTC) of a time in nanoseconds since 1970."""
    return date(1970, 1, 1) + timedelta(days=ns // _DAY_NS)


@dataclass(frozen=True, order=True)
class Partition:
    """A day's partition of a table. The table's name has at most 54 characters: with the day, 63."""

    schema: str
    table: str
    day: date

    @property
    def name(self) -> str:
        """The partition's name, in the same schema."""
        return f"{self.table}_{self.day:%Y%m%d}"


def making(one: Partition) -> tuple[str, str]:
    """The statements that create a partition.

    The partition is created separately and then attached, which does not block queries and writers of the table. CREATE
    TABLE ... PARTITION OF would wait for all of them and block new ones.
    """
    begin = datetime(one.day.year, one.day.month, one.day.day, tzinfo=UTC)
    bounds = {"begin": begin.isoformat(), "end": (begin + timedelta(days=1)).isoformat()}
    names = {"schema": one.schema, "table": one.table, "name": one.name}
    return _MAKE.format(**names), _ATTACH.format(**names, **bounds)


class Partitions:
    """The known partitions of one connection."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._known: set[Partition] = set()

    def ensure(self, wanted: Iterable[Partition]) -> None:
        """Creates missing partitions, each in its own transaction."""
        for one in sorted(set(wanted) - self._known):
            self._connection.query("SELECT pg_advisory_xact_lock(hashtext('scope.partitions'))")
            if not self._connection.query(_ATTACHED.format(schema=one.schema, name=one.name)):
                for statement in making(one):
                    self._connection.query(statement)
                _log.info("partition made", extra={"table": one.table, "day": one.day.isoformat()})
            self._connection.commit()
            self._known.add(one)

    def forget(self) -> None:
        """Forgets the known partitions, since one may have been dropped."""
        self._known.clear()
