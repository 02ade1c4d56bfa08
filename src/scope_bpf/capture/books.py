"""The kernel's books of a probe that runs: which stream has which number in them, and what they say."""

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
    """The map in which programs count what they emit and lose.

    Args:
        pinned: where in a BPF file system the map is pinned before the first event; the caller's to remove.
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
        """Makes room for every stream."""
        object_.map(ACCOUNTS).resize(len(self.names))

    def start(self, object_: BpfObject) -> None:
        """Pins the map."""
        books = object_.map(ACCOUNTS)
        self._fd = books.fd
        if self._pinned:
            self._pinned.unlink(missing_ok=True)  # of an alternative that could not be attached
            books.pin(self._pinned)

    def count(self, accounts: dict[str, Account]) -> None:
        """What the kernel has counted, by stream; nothing before the start."""
        for number, name in enumerate(self.names):
            accounts[name] = read_account(self._fd, number, self._btf) if self._fd >= 0 else Account()
