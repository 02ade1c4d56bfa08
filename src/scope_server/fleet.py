"""What a server shares with the other servers of its fleet; a server that is alone has the same in memory."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field

from scope_server.limits import Limits, LocalLimits
from scope_server.session.directory import Directory, LocalDirectory
from scope_server.signals import LocalSignals, Signals

Work = Callable[[], Coroutine[None, None, None]]


async def _nothing() -> None: ...


@dataclass(frozen=True)
class Fleet:
    """The shared parts.

    Attributes:
        away: why the other servers cannot be reached now; empty if they can.
        check: why this server's agents or writers wait for others; empty if they do not.
        work: background work, by name.
        close: called at the end.
    """

    signals: Signals
    directory: Directory
    limits: Limits
    away: Callable[[], str] = lambda: ""
    check: Callable[[], str] = lambda: ""
    work: Mapping[str, Work] = field(default_factory=dict)
    close: Callable[[], Awaitable[None]] = _nothing


def alone(server: str) -> Fleet:
    """The parts of a server that is alone."""
    signals = LocalSignals()
    return Fleet(signals, LocalDirectory(server, signals), LocalLimits())
