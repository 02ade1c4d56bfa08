"""The thread that makes written records durable.

What a crash may lose:

- `kill -9`, or any other end of the process: no record that was written. On a full disk, `put` keeps records in memory.
- A power cut or kernel crash: the records of the last `SYNC_EVERY_S` plus the time that the disk needs.
- A dropped segment is deleted after its Gap is written, and synced if the disk can.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

log = logging.getLogger(__name__)

SYNC_EVERY_S = 1.0


class Syncer(threading.Thread):
    """Calls `work` every `SYNC_EVERY_S` until `stop`; syncs and closes the descriptors that it returns.

    Attributes:
        ended: done when the thread has ended; if an unexpected error ended it, has this error.
    """

    def __init__(self, work: Callable[[], list[int]]) -> None:
        super().__init__(name="spool-sync", daemon=True)
        self._work = work
        self._stopping = threading.Event()
        self._failing = False
        self.ended: Future[None] = Future()

    def run(self) -> None:
        """The thread's work."""
        try:
            while not self._stopping.wait(SYNC_EVERY_S):
                self.sync()
        except Exception as error:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def sync(self) -> None:
        """One round."""
        for descriptor in self._work():
            try:
                self._sync(descriptor)
            finally:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _sync(self, descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if not self._failing:
                log.error("the spool's disk cannot sync records", extra={"reason": error.strerror})
            self._failing = True
        else:
            self._failing = False

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        self.join()
