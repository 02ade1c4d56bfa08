"""What a tracer is made of."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.columns import Batch
from scope_bpf.catalogue.stream import Mode
from scope_bpf.catalogue.target import Target


class Part:
    """One way in which rows of a probe come about. A part leaves alone what is no business of its own.

    A tracer calls, from the thread that polls and in this order: `programs`, `constants` and `prepare` before loading,
    `start` before any program runs, `attach` when all of the object's run, `poll` again and again, `detach`, `rest` and
    `close`. `count` and `cost` may come from any thread until then, one at a time and never beside `close`. Every step
    may raise KernelError.
    """

    def programs(self) -> Collection[str]:
        """Programs of the object that it attaches itself."""
        return ()

    def constants(self) -> Mapping[str, Any]:
        """Values of the object's read-only variables."""
        return {}

    def prepare(self, object_: BpfObject) -> None:
        """Sets up the object that is about to be loaded."""

    def start(self, object_: BpfObject) -> None:
        """Makes what the programs of the loaded object need."""

    def attach(self, object_: BpfObject) -> None:
        """Attaches programs that the alternative does not name."""

    def set_mode(self, mode: Mode) -> None:
        """Takes note of which rows are wanted from now on."""

    def retarget(self, target: Target) -> None:
        """Takes note of whom the programs watch from now on."""

    def due_s(self) -> float:
        """Seconds until it has something to do, of CLOCK_MONOTONIC; negative: it is late."""
        return math.inf

    def poll(self) -> list[Batch]:
        """The rows since the last poll, without waiting."""
        return []

    def count(self, accounts: dict[str, Account]) -> None:
        """Puts what it knows of a stream's rows and losses into the kernel's books."""

    def cost(self) -> Cost:
        """What the programs that it attached have cost."""
        return Cost()

    def detach(self) -> None:
        """Detaches them. May be called again."""

    def rest(self) -> list[Batch]:
        """What was not polled yet, once everything is detached."""
        return []

    def close(self) -> None:
        """Frees what it has. May be called again."""
