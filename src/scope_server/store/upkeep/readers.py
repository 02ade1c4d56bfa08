"""Ends what readers may not do for so long. PostgreSQL lets each role lift its own `statement_timeout`."""

import logging
from typing import Any

import psycopg

from scope_server.store.schema.reader_role import MARK

Connection = psycopg.Connection[tuple[Any, ...]]

LONGEST_S = 35.0  # what ends by the limits of the role is not met by this
# The user is that of the login: `SET ROLE` does not change it.
_END = """
SELECT r.rolname, extract(epoch FROM clock_timestamp() - a.xact_start)::float8, pg_terminate_backend(a.pid)
FROM pg_stat_activity AS a JOIN pg_roles AS r ON r.oid = a.usesysid
WHERE a.datname = current_database() AND shobj_description(r.oid, 'pg_authid') = %s
  AND a.xact_start < clock_timestamp() - make_interval(secs => %s)"""
_log = logging.getLogger(__name__)


class Readers:
    """Ends connections of readers whose transaction lasts too long, running or idle. A job of `Upkeep`."""

    name = "readers"
    every_s = 5.0
    frugal = False
    urgent = False

    def begin(self, connection: Connection) -> None:
        """Nothing to prepare."""

    def end(self) -> None:
        """Nothing to release."""

    def step(self, connection: Connection) -> bool:
        """Ends those that are there.

        Raises:
            psycopg.Error: the database went away.
        """
        for role, lasted_s, _ in connection.execute(_END, [MARK, LONGEST_S]).fetchall():
            _log.warning(
                "ended a transaction that lasted too long", extra={"role": role, "lasted_s": round(lasted_s, 1)}
            )
        return False
