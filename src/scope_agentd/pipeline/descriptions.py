"""Descriptions of the streams whose batches are in the spool. The agent sends them to servers that may lack a stream.

They are kept beside the spool, because it may hold batches of an earlier version of the agent, with other columns.
"""

import logging
import os
import threading
from pathlib import Path

log = logging.getLogger(__name__)


class Descriptions:
    """A file for each stream and fingerprint. For any thread.

    Args:
        folder: used only by this object; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def keep(self, stream: str, fingerprint: str, description: bytes) -> None:
        """Keeps a description, before the first batch is spooled. If the disk cannot write, it is kept in memory."""
        with self._lock:
            if (stream, fingerprint) in self._known:
                return
            self._known[stream, fingerprint] = description
            path = self._path(stream, fingerprint)
            if path.exists():
                return
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                written = path.with_suffix(".tmp")
                with written.open("wb") as file:
                    file.write(description)
                    file.flush()
                    os.fsync(file.fileno())
                written.rename(path)
            except OSError as error:
                about = {"stream": stream, "reason": error.strerror}
                log.warning("a stream's description cannot be written; it is lost at the agent's end", extra=about)

    def get(self, stream: str, fingerprint: str) -> bytes | None:
        """The description of a stream; None if it was not kept."""
        with self._lock:
            if (stream, fingerprint) not in self._known:
                try:
                    self._known[stream, fingerprint] = self._path(stream, fingerprint).read_bytes()
                except OSError:
                    return None
            return self._known[stream, fingerprint]

    def forget(self) -> None:
        """Deletes all files: call it while the spool holds no batch.

        Raises:
            OSError: a file cannot be deleted.
        """
        for path in self._folder.glob("*"):
            path.unlink()

    def _path(self, stream: str, fingerprint: str) -> Path:
        return self._folder / f"{stream}-{fingerprint}.json"
