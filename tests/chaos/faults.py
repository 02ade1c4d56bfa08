"""The faults: each breaks something and can repair it."""

import os
import random
import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import date, timedelta
from pathlib import Path

import psycopg
from tests.chaos.world import Part, World

from scope_catalogue.catalogue import streams
from scope_server.errors import StoreUnavailable
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.retention.days import measure
from scope_server.store.retention.drop import drop, plan
from scope_server.store.retention.policy import Reason
from scope_server.store.schema.partitions import Partition, making
from scope_server.store.writing.connection import DataRefused, WriterConnection

LOCKER = "chaos lock"  # StopBackends spares this connection: LockTables.mend waits for its end
LONG_PAST = date(2001, 1, 1)
PARTITIONED = """
SELECT relnamespace::regnamespace::text, relname FROM pg_class
WHERE relkind = 'p' AND relnamespace <> 'pg_catalog'::regnamespace"""


class Fault(ABC):
    """One fault, done once.

    Attributes:
        ends_agent: whether the fault ends the agent. Until the next agent starts, no event is emitted.
    """

    ends_agent = False

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance

    @abstractmethod
    def strike(self) -> None:
        """Causes the fault."""

    @abstractmethod
    def mend(self) -> None:
        """Repairs the fault; its effects may last longer."""


class KillPart(Fault):
    """A daemon gets kill -9, and is restarted later."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._server = chance.choice(world.servers)

    def part(self) -> Part:
        return self._server

    def strike(self) -> None:
        self.part().kill()

    def mend(self) -> None:
        self.part().start()


class KillServer(KillPart):
    """The server gets kill -9."""


class KillAgent(KillPart):
    """The agent gets kill -9."""

    ends_agent = True

    def part(self) -> Part:
        return self.world.agent


class RestartServer(KillServer):
    """The server is stopped cleanly, in the middle of its work."""

    def strike(self) -> None:
        self.part().terminate()


class RestartAgent(KillAgent):
    """The agent is stopped cleanly."""

    def strike(self) -> None:
        self.part().terminate()


class KillUp(KillAgent):
    """`scope up` is killed: the kernel signals all its parts at once; the next `scope up` ends those still running."""

    def strike(self) -> None:
        self.world.agent.send(signal.SIGTERM)
        self._server.send(signal.SIGTERM)
        if pid := self.world.postgres.pid:
            os.kill(pid, signal.SIGINT)

    def mend(self) -> None:
        self.world.agent.kill()
        self._server.kill()
        self.world.postgres.stop(immediate=True)
        self.world.start_postgres()
        self._server.start()
        self.world.agent.start()


class UpgradeAgent(RestartAgent):
    """The agent restarts as a newer version, with a column that the server does not know and has to learn."""

    def mend(self) -> None:
        self.world.agent.newer = True
        self.world.agent.start()


class UpgradeServer(RestartServer):
    """The server restarts as a newer version than its agent."""

    def mend(self) -> None:
        self._server.newer = True
        self._server.start()


class StopServer(KillServer):
    """The server is suspended: its connections stay open, but it answers nothing."""

    def strike(self) -> None:
        self.part().send(signal.SIGSTOP)

    def mend(self) -> None:
        self.part().send(signal.SIGCONT)


class StopAgent(StopServer):
    """The agent is suspended; the BPF programs continue to emit events."""

    def part(self) -> Part:
        return self.world.agent


class KillPostgres(Fault):
    """The postmaster gets kill -9, and is restarted later."""

    def strike(self) -> None:
        if pid := self.world.postgres.pid:
            os.kill(pid, signal.SIGKILL)

    def mend(self) -> None:
        self.world.start_postgres()


class AgeDatabase(Fault):
    """PostgreSQL is restarted with an older copy of its files, without what was stored since."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._copy = world.folder / "older"

    def strike(self) -> None:
        for postgres in self.world.databases:
            postgres.stop(immediate=True)
        pids = shutil.ignore_patterns("postmaster.pid")
        shutil.copytree(self.world.postgres.directory / "data", self._copy, ignore=pids)
        self.world.start_postgres()

    def mend(self) -> None:
        for postgres in self.world.databases:
            postgres.stop(immediate=True)
            data = postgres.directory / "data"
            follows = (data / "standby.signal").exists()
            shutil.rmtree(data)
            shutil.copytree(self._copy, data)
            if follows:
                (data / "standby.signal").touch()
        self.world.start_postgres()


class KillBackend(Fault):
    """A client backend gets kill -9: PostgreSQL ends, and is started again."""

    def strike(self) -> None:
        with suppress(psycopg.Error):
            pids = self.world.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids)[0], signal.SIGKILL)

    def mend(self) -> None:
        self.world.start_postgres()


class StopBackends(Fault):
    """Every client backend is suspended, as if the storage hung."""

    def strike(self) -> None:
        self._stopped: list[int] = []
        with suppress(psycopg.Error):
            for (pid,) in self.world.query(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                " AND application_name <> %s",
                LOCKER,
            ):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    self._stopped.append(pid)

    def mend(self) -> None:
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class LockTables(Fault):
    """Another connection holds a table lock that writers and readers need."""

    def strike(self) -> None:
        table = self.chance.choice(["store.tasks", "store.runs", "store.accounts", "store.names", "fresh.syscall"])
        self._release = threading.Event()
        self._thread = threading.Thread(target=self._hold, args=[table])
        self._thread.start()

    def _hold(self, table: str) -> None:
        conninfo = self.world.postgres.conninfo()
        with suppress(psycopg.Error), psycopg.connect(conninfo, application_name=LOCKER) as connection:
            connection.execute("SET lock_timeout = '3s'")  # a commit that waits for a stopped replica keeps its locks
            connection.execute(f"LOCK TABLE {table}".encode())
            self._release.wait()
            connection.rollback()  # a commit would wait for the replica, which may be stopped

    def mend(self) -> None:
        self._release.set()
        self._thread.join()


class Cut(Fault):
    """Every connection is reset; new ones work."""

    def strike(self) -> None:
        self.world.proxy.cut()

    def mend(self) -> None:
        pass


class Refuse(Cut):
    """The server cannot be reached for a while."""

    def strike(self) -> None:
        self.world.proxy.refuse(True)

    def mend(self) -> None:
        self.world.proxy.refuse(False)


class Stall(Cut):
    """The network silently drops all data."""

    def strike(self) -> None:
        self.world.proxy.stall(True)

    def mend(self) -> None:
        self.world.proxy.stall(False)


class Slow(Cut):
    """The network delays all data."""

    def strike(self) -> None:
        self.world.proxy.delay(self.chance.uniform(0.05, 0.4))

    def mend(self) -> None:
        self.world.proxy.delay(0.0)


class LoseReplies(Cut):
    """The server's answers are lost; then the connection breaks, and all unanswered records are delivered twice."""

    def strike(self) -> None:
        self.world.proxy.lose_replies(True)

    def mend(self) -> None:
        self.world.proxy.lose_replies(False)


class FillDisk(Fault):
    """A file system is full."""

    def disk(self) -> Path:
        return self.world.database_disk

    def strike(self) -> None:
        self._file = self.disk() / type(self).__name__
        with suppress(OSError), self._file.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(256 << 10))

    def mend(self) -> None:
        self._file.unlink(missing_ok=True)


class FillDatabaseDisk(FillDisk):
    """PostgreSQL's disk is full."""


class FillSpoolDisk(FillDisk):
    """The agent's disk is full."""

    def disk(self) -> Path:
        return self.world.spool_disk


class KillAgentOnFullDisk(FillSpoolDisk):
    """The agent gets kill -9 while its disk is full; the next agent starts before or after there is space."""

    ends_agent = True

    def strike(self) -> None:
        super().strike()
        time.sleep(self.chance.uniform(0.0, 1.0))
        self.world.agent.kill()

    def mend(self) -> None:
        if self.chance.random() < 0.5:
            self.world.agent.start()
            time.sleep(self.chance.uniform(0.0, 2.0))
        super().mend()
        self.world.agent.start()


class Compact(Fault):
    """A thread compacts all blocks again and again while others are written; other faults may interrupt it anywhere."""

    def strike(self) -> None:
        self._over = threading.Event()
        # mend does not wait for this thread: other faults may block its statements until they are mended.
        threading.Thread(target=self._compact, daemon=True).start()

    def _compact(self) -> None:
        compaction = Compaction(streams())
        while not self._over.wait(0.2):
            with suppress(StoreUnavailable, DataRefused), closing(self._connection()) as connection:
                while not self._over.is_set() and compaction.step(connection, everything=True):
                    pass

    def _connection(self) -> WriterConnection:
        return WriterConnection(self.world.postgres.conninfo())

    def mend(self) -> None:
        self._over.set()


class DropDays(Fault):
    """Partitions of past days are created and dropped while the server writes today's rows.

    The partitions are empty: the books would not count rows dropped with a day as lost.
    """

    def strike(self) -> None:
        self._over = threading.Event()
        # mend does not wait for this thread: other faults may block its statements until they are mended.
        threading.Thread(target=self._drop, daemon=True).start()

    def _drop(self) -> None:
        day = LONG_PAST
        while not self._over.wait(0.2):
            day += timedelta(days=1)
            with (
                suppress(psycopg.Error),
                psycopg.connect(self.world.postgres.conninfo(), autocommit=True) as connection,
            ):
                for schema, table in connection.execute(PARTITIONED).fetchall():
                    for statement in making(Partition(schema, table, day)):
                        connection.execute(statement.encode())
                plan(connection, measure(connection, BLOCKS), day, Reason.AGE)
                while drop(connection, day, BLOCKS) is None:
                    pass

    def mend(self) -> None:
        self._over.set()


class StepServerClock(KillPart):
    """The server's wall clock jumps, and is corrected later."""

    def strike(self) -> None:
        day = 86_400
        self.part().step_clock(self.chance.choice([-400 * day, -2 * day, -30, 30, 2 * day, -56 * 365 * day]))

    def mend(self) -> None:
        self.part().step_clock(0)


class StepAgentClock(StepServerClock):
    """The agent's wall clock jumps, for example back to 1970."""

    def part(self) -> Part:
        return self.world.agent


class RestartAtWrongTime(KillPart):
    """The clocks of server and agent are hours wrong when the server restarts; it restarts again with right clocks."""

    def strike(self) -> None:
        self._step(self.chance.choice([-30, -5, -1, 1, 5, 20]) * 3600)

    def mend(self) -> None:
        self._step(0)

    def _step(self, seconds: int) -> None:
        for part in (self._server, self.world.agent):
            part.step_clock(seconds)
        self._server.kill()
        self._server.start()


FAULTS: tuple[Callable[[World, random.Random], Fault], ...] = (
    KillServer,
    KillAgent,
    RestartServer,
    RestartAgent,
    KillUp,
    UpgradeAgent,
    UpgradeServer,
    StopServer,
    StopAgent,
    KillPostgres,
    AgeDatabase,
    KillBackend,
    StopBackends,
    LockTables,
    Cut,
    Refuse,
    Stall,
    Slow,
    LoseReplies,
    FillDatabaseDisk,
    FillSpoolDisk,
    KillAgentOnFullDisk,
    Compact,
    DropDays,
    StepServerClock,
    StepAgentClock,
    RestartAtWrongTime,
)
