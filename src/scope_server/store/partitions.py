"""A partition for each day (UTC) that has rows, made when the first of them comes."""

import logging
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from scope_server.store.connection import WriterConnection

_DAY_NS = 24 * 3600 * 10**9
_log = logging.getLogger(__name__)


def days(first_ns: int, last_ns: int) -> list[date]:
    """The days (UTC) from one time to another, both in nanoseconds since 1970."""
    begin = first_ns // _DAY_NS
    return [date(1970, 1, 1) + timedelta(days=day) for day in range(begin, last_ns // _DAY_NS + 1)]


class Partitions:
    """Knows which partitions there are, as seen by one connection."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._known: set[tuple[str, date]] = set()

    def ensure(self, wanted: Iterable[tuple[str, date]]) -> None:
        """Makes the partitions of these (stream, day) that are missing, each in a transaction of its own.

        The partition is made beside the table and then attached: that lets queries and writers of the table go on,
        where CREATE TABLE ... PARTITION OF would wait for them all and hold up those behind it.
        """
        for stream, day in sorted(set(wanted) - self._known):
            name = f"{stream}_{day:%Y%m%d}"
            begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
            end = begin + timedelta(days=1)
            self._connection.query("SELECT pg_advisory_xact_lock(hashtext('scope.partitions'))")
            if not self._connection.query(
                f"SELECT 1 FROM pg_tables WHERE schemaname = 'events' AND tablename = '{name}'"
            ):
                self._connection.query(f'CREATE TABLE events."{name}" (LIKE events."{stream}" INCLUDING ALL)')
                self._connection.query(
                    f'ALTER TABLE events."{stream}" ATTACH PARTITION events."{name}" '
                    f"FOR VALUES FROM ('{begin.isoformat()}') TO ('{end.isoformat()}')"
                )
                _log.info("partition made", extra={"stream": stream, "day": day.isoformat()})
            self._connection.commit()
            self._known.add((stream, day))

    def forget(self) -> None:
        """Looks again the next time: someone dropped one."""
        self._known.clear()
