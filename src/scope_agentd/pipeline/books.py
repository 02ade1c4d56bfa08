"""A run's books: per stream, how many events were emitted, lost, left out, and numbered for sending."""

import threading
from collections.abc import Iterable, Mapping

from scope_bpf.capture.account import Account
from scope_proto.scope.v1 import record_pb2

RING, BATCH, AGENT = "ring", "batch", "agent"  # places of losses before an event has a sequence number


class Books:
    """Cumulative counts since the run's start. The run's thread writes, any thread reads."""

    def __init__(self, streams: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._kernel: Mapping[str, Account] = {}
        self._lost: dict[str, dict[tuple[str, str], int]] = {}
        self._sequenced = dict.fromkeys(streams, 0)
        self._left_out = dict.fromkeys(self._sequenced, 0)

    @property
    def streams(self) -> list[str]:
        """The run's streams."""
        return list(self._sequenced)

    def set_kernel(self, accounts: Mapping[str, Account]) -> None:
        """Sets the kernel's current counts; its losses have the place "ring"."""
        with self._lock:
            self._kernel = accounts

    def lose(self, stream: str, place: str, reason: str, count: int) -> None:
        """Counts events of a stream that were lost after the kernel emitted them."""
        with self._lock:
            lost = self._lost.setdefault(stream, {})
            lost[place, reason] = lost.get((place, reason), 0) + count

    def leave_out(self, stream: str, count: int) -> None:
        """Counts rows that the task's filter did not take."""
        with self._lock:
            self._left_out[stream] += count

    def sequence(self, stream: str, count: int) -> None:
        """Counts events that got a sequence number; from now on the spool, then the server, account for them."""
        with self._lock:
            self._sequenced[stream] += count

    def sequenced(self) -> dict[str, int]:
        """Number of events with a sequence number, by stream."""
        with self._lock:
            return dict(self._sequenced)

    def close(self) -> None:
        """Counts all other emitted events as lost, at the end of the run: they were not read in time."""
        for stream in self._sequenced:
            account = self.account(stream)
            rest = account.emitted - unnumbered(account) - self._sequenced[stream]
            if rest > 0:
                self.lose(stream, AGENT, "unread", rest)

    def account(self, stream: str) -> record_pb2.Account:
        """The current account of a stream."""
        with self._lock:
            kernel = self._kernel.get(stream, Account())
            account = record_pb2.Account(
                emitted=kernel.emitted, incomplete=kernel.incomplete, left_out=self._left_out[stream]
            )
            lost = {(RING, reason): count for reason, count in kernel.lost.items()} | self._lost.get(stream, {})
        for (place, reason), count in sorted(lost.items()):
            account.lost.add(place=place, reason=reason, count=count)
        return account

    def accounts(self) -> dict[str, record_pb2.Account]:
        """The current accounts of all streams."""
        return {stream: self.account(stream) for stream in self._sequenced}


def unnumbered(account: record_pb2.Account) -> int:
    """Events that got no sequence number: they were lost before, or left out."""
    return account.left_out + sum(loss.count for loss in account.lost)
