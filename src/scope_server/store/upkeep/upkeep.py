"""Runs the store's background jobs: one thread, one connection, one step at a time."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scope_server.errors import StoreUnavailable
from scope_server.store.writing.connection import DataRefused

Connection = psycopg.Connection[tuple[Any, ...]]

_LOOK_S = 1.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_STOP_S = 5.0
_CANCEL_AGAIN_S = 0.2
_LOCK_S = 10
_log = logging.getLogger(__name__)


class Job(Protocol):
    """A job with short steps. Each step gets a connection in autocommit mode."""

    @property
    def name(self) -> str:
        """The name for the log."""

    @property
    def every_s(self) -> float:
        """Time between two checks for work, in s."""

    @property
    def frugal(self) -> bool:
        """Whether the job can wait: it is followed by a pause, and not run while free disk space is too low."""

    @property
    def urgent(self) -> bool:
        """Whether the job must run now; called every second."""

    def begin(self, connection: Connection) -> None:
        """Prepares for a new connection.

        Raises:
            psycopg.Error: the connection does not work.
        """

    def end(self) -> None:
        """Called in the same thread, after the last step."""

    def step(self, connection: Connection) -> bool:
        """Runs a short step; returns whether there is more work now.

        Raises:
            psycopg.Error, StoreUnavailable, DataRefused: the step failed; it is retried when the job is due again.
        """


class Upkeep:
    """Runs jobs in turn, with pauses while the database is away.

    Args:
        conninfo: a libpq connection string.
        jobs: in order of priority; the first job that is due runs.
        disk: frugal jobs wait while its free space is too low.
        share: share of a CPU for frugal jobs; the whole time of their steps counts as CPU time.
    """

    def __init__(self, conninfo: str, jobs: Sequence[Job], disk: "Shortage", share: float = 0.1) -> None:
        options = f"{conninfo_to_dict(conninfo).get('options') or ''} -c lock_timeout={_LOCK_S}s".strip()
        self._conninfo = make_conninfo(conninfo, options=options, application_name="scope upkeep")
        self._jobs, self._disk, self._rest = jobs, disk, 1 / share - 1
        self._due = dict.fromkeys((job.name for job in jobs), 0.0)
        self._rested = 0.0  # frugal jobs wait until this time
        self._stopping = threading.Event()
        self._connection: Connection | None = None
        self.problems: dict[str, str] = {}  # why the last step failed, by job

    async def run(self) -> None:
        """Runs until cancelled, then finishes the current step.

        Raises:
            Exception: a job failed with another error than the database's.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            failed: BaseException | None = None
            try:
                self._work()
            except BaseException as error:
                failed = error
            finally:
                for job in self._jobs:
                    job.end()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_tell, ended, failed)

        thread = threading.Thread(target=work, name="scope-upkeep", daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        finally:
            self._stopping.set()
            await asyncio.to_thread(self._end, thread)

    def _end(self, thread: threading.Thread) -> None:
        end = time.monotonic() + _STOP_S
        while thread.is_alive() and time.monotonic() < end:
            connection = self._connection
            if connection and not connection.closed:
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=1.0)
            thread.join(_CANCEL_AGAIN_S)

    def _work(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as self._connection:
                    for job in self._jobs:
                        job.begin(self._connection)
                    pause_s = _FIRST_PAUSE_S
                    self._follow(self._connection)
            except psycopg.OperationalError as error:
                if not self._stopping.is_set():
                    reason = str(error).strip().splitlines()[0]
                    _log.warning("upkeep waits for the database", extra={"reason": reason, "retry_s": pause_s})
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _follow(self, connection: Connection) -> None:
        # Until stopped, or the connection is lost.
        while not self._stopping.is_set() and not connection.closed:
            job = self._next()
            if job is None:
                self._stopping.wait(_LOOK_S)
                continue
            began = time.monotonic()
            more = self._step(job, connection)
            now = time.monotonic()
            self._due[job.name] = now if more else now + job.every_s
            if job.frugal:
                self._rested = now + (now - began) * self._rest

    def _step(self, job: Job, connection: Connection) -> bool:
        try:
            more = job.step(connection)
        except (psycopg.Error, StoreUnavailable, DataRefused) as error:
            if not self._stopping.is_set() and not connection.closed:
                self.problems[job.name] = str(error).strip().splitlines()[0]
                _log.exception("upkeep failed", extra={"job": job.name})
            return False
        self.problems.pop(job.name, None)
        return more

    def _next(self) -> Job | None:
        now, short = time.monotonic(), self._disk.short
        for job in self._jobs:
            waits = job.frugal and (short or now < self._rested)
            if job.urgent or (self._due[job.name] <= now and not waits):
                return job
        return None


class Shortage(Protocol):
    """The property of a disk that upkeep needs."""

    @property
    def short(self) -> bool:
        """Whether free space is too low."""


def _tell(ended: "asyncio.Future[None]", failed: BaseException | None) -> None:
    if ended.done():
        return
    if failed is None:
        ended.set_result(None)
    else:
        ended.set_exception(failed)
