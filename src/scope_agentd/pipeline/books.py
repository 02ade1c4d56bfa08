"""A run's books: what its streams emitted in the kernel, what was lost since, and what was given a sequence."""

import threading
from collections.abc import Iterable, Mapping

from scope_bpf.capture.account import Account
from scope_proto.scope.v1 import record_pb2

RING, BATCH, AGENT = "ring", "batch", "agent"  # the places where something may be lost before it has a sequence


class Books:
    """Cumulative since the run's start. The run's thread writes, any thread reads."""

    def __init__(self, streams: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._kernel: Mapping[str, Account] = {}
        self._lost: dict[str, dict[tuple[str, str], int]] = {}
        self._sequenced = dict.fromkeys(streams, 0)

    @property
    def streams(self) -> list[str]:
        """The run's streams."""
        return list(self._sequenced)

    def set_kernel(self, accounts: Mapping[str, Account]) -> None:
        """The kernel's own books as they stand now; its losses are at the place "ring"."""
        with self._lock:
            self._kernel = accounts

    def lose(self, stream: str, place: str, reason: str, count: int) -> None:
        """Books events of a stream as lost after the kernel."""
        with self._lock:
            lost = self._lost.setdefault(stream, {})
            lost[place, reason] = lost.get((place, reason), 0) + count

    def sequence(self, stream: str, count: int) -> None:
        """Books events as given a sequence: the spool, then the server, answer for them."""
        with self._lock:
            self._sequenced[stream] += count

    def sequenced(self) -> dict[str, int]:
        """Events by stream that were given a sequence."""
        with self._lock:
            return dict(self._sequenced)

    def close(self) -> None:
        """At the end: what was emitted and neither lost nor given a sequence was not read in time; it is lost."""
        for stream in self._sequenced:
            account = self.account(stream)
            rest = account.emitted - sum(loss.count for loss in account.lost) - self._sequenced[stream]
            if rest > 0:
                self.lose(stream, AGENT, "unread", rest)

    def account(self, stream: str) -> record_pb2.Account:
        """Where a stream's books stand."""
        with self._lock:
            kernel = self._kernel.get(stream, Account())
            account = record_pb2.Account(emitted=kernel.emitted, incomplete=kernel.incomplete)
            lost = {(RING, reason): count for reason, count in kernel.lost.items()} | self._lost.get(stream, {})
        for (place, reason), count in sorted(lost.items()):
            account.lost.add(place=place, reason=reason, count=count)
        return account

    def accounts(self) -> dict[str, record_pb2.Account]:
        """Where every stream's books stand."""
        return {stream: self.account(stream) for stream in self._sequenced}
