"""Faults of what only the deployed form has."""

import os
import random
import signal
from abc import ABC
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis
from tests.chaos import faults
from tests.chaos.deployed import Deployed
from tests.chaos.faults import Fault


class DeployedFault(Fault, ABC):
    """A fault of the deployed form."""

    world: Deployed

    def __init__(self, world: Deployed, chance: random.Random) -> None:
        super().__init__(world, chance)


class CutOff(DeployedFault, ABC):
    """What connects two parts is cut: all connections at once, silently or with resets, until it is mended."""

    between: str  # see `Deployed.ways`

    def __init__(self, world: Deployed, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._ways = chance.choice(world.ways[self.between])
        self._silently = chance.random() < 0.5

    def strike(self) -> None:
        for way in self._ways:
            if self._silently:
                way.stall(True)
            else:
                way.refuse(True)

    def mend(self) -> None:
        for way in self._ways:
            way.heal()


class CutOffServer(CutOff):
    """nginx does not reach one of the servers."""

    between = "server"


class CutOffRedis(CutOff):
    """One of the servers does not reach Redis; the other does, and takes over its records."""

    between = "redis"


class CutOffDatabase(CutOff):
    """One of the servers does not reach any PostgreSQL."""

    between = "database"


class CutOffStandby(CutOff):
    """The replica does not reach the primary: no commit ends meanwhile."""

    between = "standby"


class FillStandbyDisk(faults.FillDisk):
    """The replica's disk is full; it may end, and is then started again."""

    world: Deployed

    def disk(self) -> Path:
        return self.world.standby.directory.parent

    def mend(self) -> None:
        super().mend()
        self.world.start_postgres()


class FailOver(DeployedFault):
    """The primary is lost for good; the replica is promoted by hand, at once or later."""

    def strike(self) -> None:
        if self.chance.random() < 0.5 and (pid := self.world.postgres.pid):
            os.kill(pid, signal.SIGKILL)
        else:
            self.world.fail_over()

    def mend(self) -> None:
        self.world.fail_over()


class KillStandby(DeployedFault):
    """The replica gets kill -9, and is restarted later: no commit ends meanwhile."""

    def strike(self) -> None:
        if pid := self.world.standby.pid:
            os.kill(pid, signal.SIGKILL)

    def mend(self) -> None:
        self.world.start_postgres()


class StopStandby(DeployedFault):
    """The replica is suspended: no commit ends meanwhile."""

    def strike(self) -> None:
        self.world.signal_standby(signal.SIGSTOP)

    def mend(self) -> None:
        self.world.signal_standby(signal.SIGCONT)


class KillRedis(DeployedFault):
    """Redis gets kill -9, and is restarted without data."""

    def strike(self) -> None:
        self.world.redis.kill()

    def mend(self) -> None:
        if not self.world.redis.runs:
            self.world.redis.start()


class AgeRedis(KillRedis):
    """Redis is restarted with an older snapshot: it has records that were stored, and lacks those that came since."""

    def strike(self) -> None:
        self.world.redis.resume()  # one that is suspended cannot be told
        with suppress(redis.RedisError):
            self.world.redis.save()

    def mend(self) -> None:
        self.world.redis.kill()
        self.world.redis.start(older=True)


class StopRedis(DeployedFault):
    """Redis is suspended: its connections stay open, but it answers nothing."""

    def strike(self) -> None:
        self.world.redis.pause()

    def mend(self) -> None:
        self.world.redis.resume()


class FillRedis(DeployedFault):
    """Redis has no memory left: it refuses what needs some."""

    def strike(self) -> None:
        self._set("1")

    def mend(self) -> None:
        self._set("0")

    def _set(self, limit: str) -> None:
        self.world.redis.resume()  # one that is suspended cannot be told
        with suppress(redis.RedisError), self.world.redis.client as client:
            client.config_set("maxmemory", limit)


class KillNginx(DeployedFault):
    """nginx gets kill -9, and is restarted later."""

    def strike(self) -> None:
        self.world.front.kill()

    def mend(self) -> None:
        self.world.front.start()


class StopNginx(DeployedFault):
    """nginx is suspended."""

    def strike(self) -> None:
        self.world.front.pause()

    def mend(self) -> None:
        self.world.front.resume()


_Make = Callable[[Deployed, random.Random], Fault]

OWN: tuple[_Make, ...] = (
    CutOffServer,
    CutOffRedis,
    CutOffDatabase,
    CutOffStandby,
    FillStandbyDisk,
    FailOver,
    KillStandby,
    StopStandby,
    KillRedis,
    AgeRedis,
    StopRedis,
    FillRedis,
    KillNginx,
    StopNginx,
    faults.KillServer,
    faults.RestartServer,
    faults.StopServer,
    faults.KillPostgres,
    faults.AgeDatabase,
)
OTHERS: tuple[_Make, ...] = (
    faults.KillAgent,
    faults.RestartAgent,
    faults.UpgradeAgent,
    faults.StopAgent,
    faults.KillBackend,
    faults.StopBackends,
    faults.LockTables,
    faults.Cut,
    faults.Refuse,
    faults.Stall,
    faults.LoseReplies,
    faults.FillDatabaseDisk,
    faults.FillSpoolDisk,
    faults.Compact,
    faults.StepAgentClock,
    faults.StepServerClock,
    faults.RestartAtWrongTime,
)
