"""The interface of a tracer's parts."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.statistics import Cost
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch
from scope_bpf.catalogue.target import Target
from scope_catalogue.stream import Mode


class Part:
    """One source of a probe's rows. A part overrides only the methods that it needs.

    A tracer calls these methods from the polling thread, in this order: `programs`, `constants` and `prepare` before
        loading, `start` before any program runs, `attach` when the object's programs are attached, `poll` repeatedly,
        `detach`, `rest` and `close`. `count` and `cost` may be called from any thread, one at a time, but not during or
        after `close`. Every method may raise KernelError.
    """

    def programs(self) -> Collection[str]:
        """Programs of the object that the part attaches itself."""
        return ()

    def constants(self) -> Mapping[str, Any]:
        """Values of the object's read-only variables."""
        return {}

    def prepare(self, object_: BpfObject) -> None:
        """Configures the object before it is loaded."""

    def start(self, object_: BpfObject) -> None:
        """Creates what the programs of the loaded object need."""

    def attach(self, object_: BpfObject) -> None:
        """Attaches the part's own programs."""

    def set_mode(self, mode: Mode) -> None:
        """Changes the mode."""

    def retarget(self, target: Target) -> None:
        """Changes the target."""

    def due_s(self) -> float:
        """Seconds until the part has work; negative: it is late."""
        return math.inf

    def poll(self) -> list[Batch]:
        """The rows since the last poll, without waiting."""
        return []

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds the part's own counts of rows and losses to the kernel's counts."""

    def cost(self) -> Cost:
        """The CPU cost of the part's own programs."""
        return Cost()

    def memory_bytes(self) -> int:
        """The kernel's memory for rings and maps that the part made itself, after `start`."""
        return 0

    def detach(self) -> None:
        """Detaches the part's own programs. May be called again."""

    def rest(self) -> list[Batch]:
        """The rows not polled yet, after everything is detached."""
        return []

    def close(self) -> None:
        """Frees the part's resources. May be called again."""
