"""Where a trace goes. A sink takes record batches of the streams, one batch at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

import pyarrow as pa

from scope_bpf.capture.account import Account
from scope_catalogue.stream import DescribedStream
from scope_cli.errors import CommandError

Accounts = Callable[[], Mapping[str, Account]]  # the books of every stream, as they stand


class Sink(Protocol):
    """Takes what was recorded.

    Attributes:
        name: the file, for messages.
    """

    name: str

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """The columns it reads of a stream; None: all."""

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Takes a batch, which may have more columns."""

    def flush(self) -> None:
        """Called several times a second: shows what it has taken, where somebody may wait for it."""

    def close(self) -> list[str]:
        """Ends; returns lines for the summary."""


class Sinks:
    """Several sinks as one.

    `write`, `flush` and `close` raise CommandError, which names the file that cannot be written, or BrokenPipeError.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = tuple(sinks)

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """All that any of them reads."""
        wanted: set[str] = set()
        for sink in self._sinks:
            columns = sink.columns(stream)
            if columns is None:
                return None
            wanted.update(columns)
        return wanted

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Hands the batch to each."""
        for sink in self._sinks:
            with _naming(sink):
                sink.write(stream, batch)

    def flush(self) -> None:
        """Lets each show what it has."""
        for sink in self._sinks:
            with _naming(sink):
                sink.flush()

    def close(self) -> list[str]:
        """Ends each, also where another cannot be ended."""
        told: list[str] = []

        def end(sink: Sink) -> None:
            with _naming(sink):
                told.extend(sink.close())

        with ExitStack() as ending:
            for sink in reversed(self._sinks):
                ending.callback(end, sink)
        return told


@contextmanager
def _naming(sink: Sink) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write {sink.name}: {error.strerror or error}") from error


class Losses:
    """What has been lost since it was last asked.

    Args:
        accounts: the books of the streams.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._told: dict[tuple[str, str], int] = {}

    def new(self) -> list[tuple[str, str, int]]:
        """DescribedStream, reason and number of rows."""
        found = []
        for stream, account in self._accounts().items():
            for reason, count in account.lost.items():
                more = count - self._told.get((stream, reason), 0)
                if more > 0:
                    found.append((stream, reason, more))
                    self._told[stream, reason] = count
        return found
