"""The kernel's event counts of a running probe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.account import Account
from scope_bpf.capture.kernel_books import read_account
from scope_bpf.capture.part import Part
from scope_bpf.catalogue.probe import Probe

ACCOUNTS = "scope_accounts"  # emit.bpf.h


class KernelBooks(Part):
    """The map in which programs count emitted and lost events.

    Args:
        pinned: path in a BPF file system at which the map is pinned before the first event; the caller removes the pin.
    """

    def __init__(self, probe: Probe, pinned: Path | None) -> None:
        self.names = [stream.name for stream in probe.counted_streams]
        self._btf = probe.btf
        self._pinned = pinned
        self._fd = -1

    def constants(self) -> Mapping[str, Any]:
        """The streams' numbers."""
        return {f"stream_{name}": number for number, name in enumerate(self.names)}

    def prepare(self, object_: BpfObject) -> None:
        """Sizes the map for all streams."""
        object_.map(ACCOUNTS).resize(len(self.names))

    def start(self, object_: BpfObject) -> None:
        """Pins the map."""
        books = object_.map(ACCOUNTS)
        self._fd = books.fd
        if self._pinned:
            self._pinned.unlink(missing_ok=True)  # left by an alternative that could not be attached
            books.pin(self._pinned)

    def count(self, accounts: dict[str, Account]) -> None:
        """Adds the kernel's counts by stream; none before the start."""
        for number, name in enumerate(self.names):
            accounts[name] = read_account(self._fd, number, self._btf) if self._fd >= 0 else Account()
