"""Deletes old tasks, runs, quarantined records and annotations that cannot change any more."""

import logging
from datetime import UTC, datetime, time, timedelta
from typing import Any

import psycopg

from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout
from scope_server.store.retention.days import measure

Connection = psycopg.Connection[tuple[Any, ...]]

NEWEST_TASKS = 1000  # newest tasks, kept at any age
_RUNS_OF_A_TASK = 100  # newest runs of a task, kept at any age
_RESENT = timedelta(days=7)  # a returning agent may resend records: its run must still be known
_SOME = 1000
MOST_ANNOTATIONS = 1_000_000  # of a machine, the newest; and of people
_log = logging.getLogger(__name__)

# Runs that ended before, with final counts and no references.
_RUNS = """
SELECT r.id FROM store.runs r JOIN store.tasks t ON t.id = r.task
WHERE r.ended < %(before)s
  AND (NOT t.wanted AND t.id NOT IN (SELECT id FROM store.tasks ORDER BY id DESC LIMIT %(tasks)s)
       OR (SELECT count(*) FROM store.runs n WHERE n.task = r.task AND n.run_id > r.run_id) >= %(runs)s)
  AND NOT EXISTS (
      SELECT FROM store.accounts a
      WHERE a.run = r.id
        AND (a.last_sequence IS NULL OR NOT a.settled @> int8multirange(int8range(1, a.last_sequence + 1))))
  AND NOT EXISTS (SELECT FROM store.quarantine q WHERE q.run = r.id)
  AND r.id NOT IN (SELECT DISTINCT run FROM store.batches)
ORDER BY r.id LIMIT %(some)s"""
_TASKS = """
DELETE FROM store.tasks t
WHERE NOT wanted AND created < %(before)s
  AND id NOT IN (SELECT id FROM store.tasks ORDER BY id DESC LIMIT %(tasks)s)
  AND NOT EXISTS (SELECT FROM store.runs r WHERE r.task = t.id)"""
_QUARANTINE = "DELETE FROM store.quarantine WHERE received < now() - make_interval(days => %s)"
# Those of a time of which no rows are left, and beyond their number.
_ANNOTATIONS = """
DELETE FROM store.annotations a
WHERE coalesce(a.until, a.time) < %(before)s AND a.made < %(before)s
   OR a.id IN (
      SELECT o.id
      FROM (SELECT machine FROM store.annotations GROUP BY machine HAVING count(*) > %(most)s) m
      CROSS JOIN LATERAL (SELECT id FROM store.annotations WHERE machine IS NOT DISTINCT FROM m.machine
                          ORDER BY time DESC OFFSET %(most)s) o)"""
_DROPPED = "DELETE FROM store.dropped WHERE dropped_at < now() - interval '1 year'"


class Closed:
    """Deletes them. A job of `Upkeep`.

    Args:
        keep_days: older quarantined records are deleted.
        layout: how rows lie.
    """

    name = "closed"
    every_s = 3600.0
    frugal = True
    urgent = False

    def __init__(self, keep_days: int, layout: Layout = BLOCKS) -> None:
        self._keep_days, self._layout = keep_days, layout

    def begin(self, connection: Connection) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to release."""

    def step(self, connection: Connection) -> bool:
        """Deletes some; returns whether there are more.

        Raises:
            psycopg.Error: not all were deleted.
        """
        connection.execute(_QUARANTINE, [self._keep_days])
        connection.execute(_DROPPED)
        before = _before(connection, self._layout)
        connection.execute(_ANNOTATIONS, {"before": before, "most": MOST_ANNOTATIONS})
        where = {"before": before, "tasks": NEWEST_TASKS, "runs": _RUNS_OF_A_TASK, "some": _SOME}
        with connection.transaction():
            runs = [run for (run,) in connection.execute(_RUNS, where).fetchall()]
            for table, key in (("losses", "run"), ("accounts", "run"), ("runs", "id")):
                connection.execute(f"DELETE FROM store.{table} WHERE {key} = ANY(%s)".encode(), [runs])
            tasks = connection.execute(_TASKS, where).rowcount
        if runs or tasks:
            _log.info("old runs and tasks deleted", extra={"runs": len(runs), "tasks": tasks})
        return len(runs) == _SOME


def _before(connection: Connection, layout: Layout) -> datetime:
    now = datetime.now(UTC)
    oldest = min(measure(connection, layout).days, default=now.date())
    return min(datetime.combine(oldest, time(), UTC), now - _RESENT)
