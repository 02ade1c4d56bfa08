"""Annotations that wait for the server, in a file: a killed agent loses none."""

import json
import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from scope_agentd.errors import AnnotationRefused
from scope_proto.scope.v1 import session_pb2

log = logging.getLogger(__name__)

MOST = 100_000  # that wait: some 20 MB
_MAKE = """
CREATE TABLE IF NOT EXISTS waiting (
    number INTEGER PRIMARY KEY, id BLOB NOT NULL, utc_ns INTEGER NOT NULL, text TEXT NOT NULL, labels TEXT NOT NULL,
    pid INTEGER NOT NULL, comm TEXT NOT NULL)"""
_PUT = "INSERT INTO waiting (id, utc_ns, text, labels, pid, comm) VALUES (?, ?, ?, ?, ?, ?)"
_OLDEST = "SELECT id, utc_ns, text, labels, pid, comm FROM waiting ORDER BY number LIMIT ?"
_DROP = "DELETE FROM waiting WHERE number IN (SELECT number FROM waiting ORDER BY number LIMIT ?)"


class Outbox:
    """The file. For any thread.

    If the file cannot be used, the log says so and annotations are refused; recording goes on.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._waiting = 0
        try:
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute(_MAKE)
            (self._waiting,) = self._database.execute("SELECT count(*) FROM waiting").fetchone()
        except (OSError, sqlite3.Error) as error:
            said = "annotations of programs cannot be kept; delete the file, and restart the agent"
            log.error(said, extra={"file": str(path), "reason": str(error)})
            self.close()

    @property
    def waiting(self) -> int:
        """Number of annotations that wait."""
        return self._waiting

    def put(self, one: session_pb2.Annotation) -> None:
        """Keeps an annotation: a crash of the agent does not lose it.

        Raises:
            AnnotationRefused: too many wait, or the file cannot be written to.
        """
        labels = json.dumps(dict(one.labels))
        with self._lock:
            if self._waiting >= MOST:
                raise AnnotationRefused(f"{MOST} annotations wait for the server; try again when it is back")
            try:
                self._usable().execute(_PUT, [one.id, one.utc_ns, one.text, labels, one.pid, one.comm])
            except sqlite3.Error as error:
                raise AnnotationRefused(f"the agent cannot keep the annotation: {error}") from None
            self._waiting += 1

    def oldest(self, most: int) -> list[session_pb2.Annotation]:
        """The annotations that wait longest; none if the file cannot be read."""
        with self._lock:
            try:
                rows = self._usable().execute(_OLDEST, [most]).fetchall()
            except (AnnotationRefused, sqlite3.Error):
                return []
        return [
            session_pb2.Annotation(id=key, utc_ns=utc_ns, text=text, labels=json.loads(labels), pid=pid, comm=comm)
            for key, utc_ns, text, labels, pid, comm in rows
        ]

    def drop(self, sent: Sequence[session_pb2.Annotation]) -> None:
        """Deletes the oldest, which were sent. If that fails they are sent again, and stored once."""
        with self._lock:
            try:
                self._usable().execute(_DROP, [len(sent)])
            except (AnnotationRefused, sqlite3.Error) as error:
                log.warning("annotations will be sent again", extra={"reason": str(error)})
                return
            self._waiting -= len(sent)

    def close(self) -> None:
        """Closes the file, after a call under way in another thread: SQLite crashes if it is closed meanwhile."""
        with self._lock:
            if self._database:
                self._database.close()
                self._database = None

    def _usable(self) -> sqlite3.Connection:
        if self._database is None:
            raise AnnotationRefused("the agent cannot keep annotations: its log says why")
        return self._database
