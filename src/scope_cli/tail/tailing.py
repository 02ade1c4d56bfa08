"""Passes what a reader receives to a sink, until the limit."""

import time
from collections.abc import Mapping

from scope_catalogue.stream import DescribedStream
from scope_cli.errors import CommandError
from scope_cli.printable import print_remark
from scope_cli.tail.reader import Reader, rows_of
from scope_cli.trace.sink import Sinks
from scope_cli.trace.summary import summary_line
from scope_wire.errors import DamagedMessage

_FLUSH_EVERY_S = 0.1


class Tailing:
    """One run of `scope tail`.

    Args:
        known: all streams by name.
        limit: number of rows after which it ends; None: none.
    """

    def __init__(self, reader: Reader, known: Mapping[str, DescribedStream], sink: Sinks, limit: int | None) -> None:
        self._reader, self._known, self._sink, self._limit = reader, known, sink, limit
        self._rows, self._began = 0, time.monotonic()

    def run(self) -> None:
        """Until the limit; without one, until it is interrupted.

        Raises:
            CommandError: the agent has another version, or the output cannot be written.
        """
        away = False
        while self._limit is None or self._rows < self._limit:
            try:
                self._take()
            except (DamagedMessage, KeyError) as error:
                raise CommandError(f"the agent and this command differ: {error}; use the agent's `scope`") from None
            self._sink.flush()
            if self._reader.away and not away:
                print_remark("scope: the agent went away; waiting for it")
            away = self._reader.away

    def _take(self) -> None:
        for message, schema in self._reader.receive(_FLUSH_EVERY_S):
            left = message.events if self._limit is None else min(message.events, self._limit - self._rows)
            if left:
                stream = self._known[message.stream]
                rows = rows_of(message, schema, self._sink.columns(stream))
                self._sink.write(stream, rows.slice(0, left))
                self._rows += left

    def close(self) -> str:
        """Writes the rest; returns a line about rows and losses."""
        self._sink.close()
        return summary_line(self._rows, self._rows, time.monotonic() - self._began, self._reader.losses.accounts())
