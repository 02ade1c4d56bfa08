"""A reader of an agent's local bus."""

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyarrow as pa
import zmq
from zmq.utils.monitor import recv_monitor_message

from scope_cli.errors import CommandError
from scope_cli.installation import another_users
from scope_cli.tail.losses import Losses
from scope_wire.bus.columns import unpacked
from scope_wire.bus.message import Message, Schema, unpacked_schema
from scope_wire.bus.place import socket_path
from scope_wire.errors import InvalidAddress

_MOST_MESSAGES = 64  # that wait in this process, of some 512 KiB
_FIRST_ANSWER_S = 5.0


class Reader:
    """Receives messages with these topics or prefixes of topics. A context, which closes the socket.

    Attributes:
        losses: what was missed.
        away: whether the agent has gone; if another one starts, its messages follow.

    Raises:
        CommandError: no agent offers events there.
    """

    def __init__(self, state: Path, topics: Collection[bytes]) -> None:
        self.losses = Losses(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self.away = True
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, _MOST_MESSAGES)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        for topic in topics:
            self._socket.subscribe(topic)
        try:
            self._connect(state)
        except BaseException:
            self.close()
            raise

    def _connect(self, state: Path) -> None:
        try:
            path = socket_path(state)
            there = path.exists()
        except (InvalidAddress, PermissionError) as error:
            raise CommandError(f"cannot read the local bus: {error}{another_users()}") from None
        if there:
            self._socket.connect(f"ipc://{path}")
            if self._monitor.poll(int(1000 * _FIRST_ANSWER_S)):
                self._hear()
        if self.away:
            raise CommandError(
                f"no agent offers events at {path}; start one with `scope up`, or name its state directory in "
                f"SCOPE_STATE{another_users()}"
            )

    def receive(self, timeout_s: float) -> Iterator[tuple[Message, Schema]]:
        """The messages that have arrived; waits for the first.

        Raises:
            DamagedMessage: this is not the bus of an agent of this version.
        """
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        poller.poll(int(1000 * timeout_s))
        self._hear()
        with suppress(zmq.Again):
            for _ in range(_MOST_MESSAGES):
                _, schema, batch = self._socket.recv_multipart(zmq.NOBLOCK)
                message = Message.of(batch)
                self.losses.note(message)
                yield message, unpacked_schema(schema)

    def _hear(self) -> None:
        while self._monitor.poll(0):
            self.away = recv_monitor_message(self._monitor)["event"] == zmq.EVENT_DISCONNECTED

    def close(self) -> None:
        """Leaves the bus."""
        self._socket.disable_monitor()
        self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rows_of(message: Message, schema: Schema, only: Collection[str] | None) -> pa.RecordBatch:
    """The rows of a message: all columns or these; texts are strings."""
    kinds = {name: kind for name, kind, _ in schema if only is None or name in only}
    return pa.RecordBatch.from_arrays(
        [unpacked(message.columns[name], kind) for name, kind in kinds.items()], names=list(kinds)
    )
