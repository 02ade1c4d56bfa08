"""What is done in the background for the store: one thread, one connection, one step at a time."""

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
_LIMITS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
}
_log = logging.getLogger(__name__)


class Job(Protocol):
    """Work in bounded steps, each over the connection that it is given, which commits by itself."""

    @property
    def name(self) -> str:
        """For the log."""

    @property
    def every_s(self) -> float:
        """How often there may be something to do."""

    @property
    def frugal(self) -> bool:
        """Whether it can wait: it is followed by a rest, and not done while the disk is short."""

    @property
    def urgent(self) -> bool:
        """Whether it is to be done now; asked every second."""

    def begin(self, connection: Connection) -> None:
        """Told of a new connection.

        Raises:
            psycopg.Error: the connection is of no use.
        """

    def end(self) -> None:
        """Told, in the same thread, that there are no more steps."""

    def step(self, connection: Connection) -> bool:
        """Does a little; whether there is more to do now.

        Raises:
            psycopg.Error, StoreUnavailable, DataRefused: it could not; it is tried again when it is due the next time.
        """


class Upkeep:
    """Does jobs in turn, with pauses while the database is away.

    Args:
        conninfo: a libpq connection string.
        jobs: the first of those that are due is done.
        disk: frugal jobs wait while it is short.
        share: of a CPU, for frugal jobs; measured as if their steps did nothing but compute.
    """

    def __init__(self, conninfo: str, jobs: Sequence[Job], disk: "Shortage", share: float = 0.1) -> None:
        given = conninfo_to_dict(conninfo)
        limits = {name: value for name, value in _LIMITS.items() if name not in given}
        options = f"{given.get('options') or ''} -c lock_timeout={_LOCK_S}s".strip()
        self._conninfo = make_conninfo(conninfo, **limits, options=options, application_name="scope upkeep")
        self._jobs, self._disk, self._rest = jobs, disk, 1 / share - 1
        self._due = dict.fromkeys((job.name for job in jobs), 0.0)
        self._rested = 0.0  # until then, frugal jobs wait
        self._stopping = threading.Event()
        self._connection: Connection | None = None
        self.problems: dict[str, str] = {}  # by job: why its last step failed

    async def run(self) -> None:
        """Runs until cancelled, then ends the step that is under way.

        Raises:
            Exception: whatever else than the database's errors a job fails with.
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
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
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
        # Until told to stop, or the connection is lost.
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
    """A disk, as far as upkeep asks it."""

    @property
    def short(self) -> bool:
        """Whether less is free than has to stay so."""


def _tell(ended: "asyncio.Future[None]", failed: BaseException | None) -> None:
    if ended.done():
        return
    if failed is None:
        ended.set_result(None)
    else:
        ended.set_exception(failed)
