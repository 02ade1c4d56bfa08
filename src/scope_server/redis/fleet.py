"""The parts that the servers of a fleet share, in Redis."""

from dataclasses import dataclass

from scope_server.fleet import Fleet
from scope_server.ingest.backlog import Backlog
from scope_server.redis.address import Address
from scope_server.redis.directory import RedisDirectory
from scope_server.redis.intake import Intake
from scope_server.redis.limits import RedisLimits
from scope_server.redis.link import Link
from scope_server.redis.outbox import Outbox
from scope_server.redis.signals import RedisSignals


@dataclass(frozen=True)
class Records:
    """Which records a server brings to Redis, and takes from there.

    Attributes:
        received: the backlog of what agents send; None: it has no agents.
        written: the backlog of its writers; None: it has none.
        most_bytes: of records in Redis.
    """

    received: Backlog | None = None
    written: Backlog | None = None
    most_bytes: int = 0


def joined(server: str, at: Address, records: Records) -> Fleet:
    """The parts of a server that is one of several.

    Args:
        server: its name; no other server of the fleet has, or had, the same.
    """
    link = Link(at)
    signals = RedisSignals(server, link)
    directory = RedisDirectory(server, signals, link)
    work = {"redis": link.run, "signals": signals.run, "directory": directory.run}
    outbox = Outbox(server, link, records.received, records.most_bytes) if records.received else None
    intake = Intake(server, link, records.written) if records.written else None
    if outbox:
        work["outbox"] = outbox.run
    if intake:
        work["intake"] = intake.run

    def away() -> str:
        return f"Redis is away: {link.away}" if link.away else ""

    def check() -> str:
        return outbox.check() if outbox else away() if intake else ""

    async def close() -> None:
        if intake:
            await intake.close()
        await link.close()

    return Fleet(signals, directory, RedisLimits(link), away, check, work, close)
