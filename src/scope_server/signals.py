"""What the servers of a fleet tell each other: news, never facts. A lost one only makes something late."""

import asyncio
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Protocol

Heard = Callable[[Collection[str]], None]


class Topic(StrEnum):
    """What a signal is about; its names are those of the things that changed."""

    COMMITTED = "committed"  # streams of which rows were committed
    MACHINES = "machines"  # ids of machines whose session began or ended, or whose report was written
    PROBES = "probes"  # ids of machines whose agents are to tell their probes
    ENDED = "ended"  # machines and persons that may no longer connect


class Signals(Protocol):
    """Signals reach all servers, the one that tells included."""

    def tell(self, topic: Topic, names: Collection[str]) -> None:
        """Tells all servers. For any thread; never waits."""

    def on(self, topic: Topic, heard: Heard) -> None:
        """Has `heard` called, in the event loop, with the names of each signal; without names: any may have changed."""


class LocalSignals:
    """The signals of a server that is alone. Create it in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: dict[Topic, list[Heard]] = {topic: [] for topic in Topic}

    def tell(self, topic: Topic, names: Collection[str]) -> None:
        """See Signals."""
        self._loop.call_soon_threadsafe(self.hear, topic, names)

    def on(self, topic: Topic, heard: Heard) -> None:
        """See Signals."""
        self._heard[topic].append(heard)

    def hear(self, topic: Topic, names: Collection[str]) -> None:
        """Calls those of this server who want to hear it."""
        for heard in self._heard[topic]:
            heard(names)
