"""The parts that the servers of a fleet share, in Redis."""

from scope_server.fleet import Fleet
from scope_server.redis.address import Address
from scope_server.redis.directory import RedisDirectory
from scope_server.redis.limits import RedisLimits
from scope_server.redis.link import Link
from scope_server.redis.signals import RedisSignals


def joined(server: str, at: Address) -> Fleet:
    """The parts of a server that is one of several.

    Args:
        server: its name; no other server of the fleet has, or had, the same.
    """
    link = Link(at)
    signals = RedisSignals(server, link)
    directory = RedisDirectory(server, signals, link)
    work = {"redis": link.run, "signals": signals.run, "directory": directory.run}
    return Fleet(signals, directory, RedisLimits(link), lambda: link.away, work, link.close)
