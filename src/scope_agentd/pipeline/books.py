"""A task's books: what its streams emitted in the kernel, and what was lost since, by place and reason."""

import threading
from collections.abc import Mapping

from scope_bpf.account import Account
from scope_proto.scope.v1 import batch_pb2

RING, BATCH, QUEUE = "ring", "batch", "queue"  # the places where the agent may lose something


class Books:
    """Cumulative since the task's start. Losses may be booked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernel: Mapping[str, Account] = {}
        self._lost: dict[str, dict[tuple[str, str], int]] = {}

    def set_kernel(self, accounts: Mapping[str, Account]) -> None:
        """The kernel's own books as they stand now; its losses are at the place "ring"."""
        with self._lock:
            self._kernel = accounts

    def lose(self, stream: str, place: str, reason: str, count: int) -> None:
        """Books events of a stream as lost after the kernel."""
        with self._lock:
            lost = self._lost.setdefault(stream, {})
            lost[place, reason] = lost.get((place, reason), 0) + count

    def account(self, stream: str) -> batch_pb2.Account:
        """Where a stream's books stand."""
        with self._lock:
            kernel = self._kernel.get(stream, Account())
            account = batch_pb2.Account(emitted=kernel.emitted)
            lost = {(RING, reason): count for reason, count in kernel.lost.items()} | self._lost.get(stream, {})
        for (place, reason), count in sorted(lost.items()):
            account.lost.add(place=place, reason=reason, count=count)
        return account
