"""Which server holds which agent's session, and news of them: what a request waits for, whichever server it reached."""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from scope_server.signals import Signals, Topic


class News:
    """News of one machine. A `wait` that begins after some came returns at once, so none are missed."""

    def __init__(self) -> None:
        self._some = asyncio.Event()

    def tell(self) -> None:
        """Adds news."""
        self._some.set()

    async def wait(self) -> None:
        """Returns when there are news since the last call."""
        await self._some.wait()
        self._some.clear()


class Directory(Protocol):
    """The sessions of all servers of a fleet. What is changed here is seen by the others soon."""

    def hold(self, machine_id: str) -> None:
        """Notes that this server holds the session of a machine."""

    def release(self, machine_id: str) -> None:
        """Notes that this server no longer holds it."""

    def tell(self, machine_id: str) -> None:
        """Tells that a report of the machine's agent was written to the database."""

    async def holder(self, machine_id: str) -> str | None:
        """Name of the server that holds the machine's session; None: no server does."""

    async def connected(self) -> frozenset[str]:
        """The ids of all machines whose session a server holds."""

    @contextmanager
    def news(self, machine_id: str) -> Iterator[News]:
        """News of the machine, while inside: its session began or ended, or a report of it was written."""


class LocalDirectory:
    """The directory of a server that is alone.

    Args:
        server: the server's name.
        signals: bring the news, from this server or others.
    """

    def __init__(self, server: str, signals: Signals) -> None:
        self._server, self._signals = server, signals
        self._held: set[str] = set()
        self._readers: dict[str, set[News]] = {}
        signals.on(Topic.MACHINES, self._heard)

    def hold(self, machine_id: str) -> None:
        """See Directory."""
        self._held.add(machine_id)
        self.tell(machine_id)

    def release(self, machine_id: str) -> None:
        """See Directory."""
        self._held.discard(machine_id)
        self.tell(machine_id)

    def tell(self, machine_id: str) -> None:
        """See Directory."""
        self._signals.tell(Topic.MACHINES, [machine_id])

    async def holder(self, machine_id: str) -> str | None:
        """See Directory."""
        return self._server if machine_id in self._held else None

    async def connected(self) -> frozenset[str]:
        """See Directory."""
        return frozenset(self._held)

    @contextmanager
    def news(self, machine_id: str) -> Iterator[News]:
        """See Directory."""
        readers, news = self._readers.setdefault(machine_id, set()), News()
        readers.add(news)
        try:
            yield news
        finally:
            readers.discard(news)
            if not readers:
                self._readers.pop(machine_id, None)

    def _heard(self, machines: Collection[str]) -> None:
        for machine_id in machines or list(self._readers):
            for news in self._readers.get(machine_id, ()):
                news.tell()
