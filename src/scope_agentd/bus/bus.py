"""The bus's socket, and the thread that owns it: hears who listens, makes messages, sends them.

The socket is an XPUB: a PUB that tells of subscriptions. A message for a reader that is slow is dropped for this reader
only; sending never waits.
"""

import asyncio
import logging
import os
import threading
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import zmq

from scope_agentd.bus.positions import Source
from scope_agentd.bus.waiting import Waiting
from scope_agentd.errors import BusFailed, StateUnusable
from scope_proto.scope.v1 import record_pb2
from scope_wire.bus.message import Message
from scope_wire.bus.place import socket_path

log = logging.getLogger(__name__)

MOST_MESSAGES = 64  # that wait for one reader, of some 512 KiB: 32 MiB of the agent's memory
_LINGER_MS = 1000  # so long the end waits for readers
_TELL_EVERY_MS = 1000


class Bus:
    """Offers the rows of all runs to programs on this machine.

    Raises:
        StateUnusable: the socket cannot be made.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = socket_path(state_dir)
        self._socket = _bound(self._path)
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waiting = Waiting(lambda: os.eventfd_write(self._woken, 1))
        self._closing = False
        self._ended: Future[None] = Future()
        self._sent: Counter[str] = Counter()
        self._unreadable: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="bus", daemon=True)
        self._thread.start()

    def put(self, record: record_pb2.Record) -> None:
        """Takes a record of a run, from any thread. Costs little if nobody listens; never waits for readers."""
        self._waiting.put(record)

    @property
    def topics(self) -> int:
        """Number of prefixes of topics that readers listen to."""
        return self._waiting.topics()

    @property
    def sent(self) -> dict[str, int]:
        """Events in messages for any reader, by stream."""
        return dict(self._sent)

    def dropped(self) -> dict[tuple[str, str], int]:
        """Events that somebody listened to but no reader got, by stream and reason."""
        full = {(stream, "bus_full"): count for stream, count in self._waiting.dropped().items()}
        return full | {(stream, "unreadable"): count for stream, count in self._unreadable.copy().items()}

    async def watch(self) -> None:
        """Returns when the bus is closed.

        Raises:
            BusFailed: nothing is sent any more.
        """
        ended = asyncio.wrap_future(self._ended)
        await asyncio.wait([ended])
        if error := ended.exception():
            raise BusFailed("the local bus sends no more messages; start the agent again") from error

    def close(self) -> None:
        """Sends what waits, then removes the socket."""
        self._closing = True
        os.eventfd_write(self._woken, 1)
        self._thread.join()
        os.close(self._woken)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            self._socket.context.destroy(_LINGER_MS)
            self._path.unlink(missing_ok=True)

    def _work(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        closing = False
        while not closing:
            ready = dict(poller.poll(_TELL_EVERY_MS if self.topics else None))
            if self._woken in ready:
                os.eventfd_read(self._woken)
            closing = self._closing  # read before the records are taken: those put before the close are sent
            self._hear()
            records, positions = self._waiting.take()
            for source, record in records:
                self._publish(source, record)
            for source, position in positions:
                self._send(source, position)

    def _hear(self) -> None:
        while self._socket.poll(0):
            said = self._socket.recv()
            if said[:1] == b"\x01":
                self._waiting.join(said[1:])
            elif said[:1] == b"\x00":
                self._waiting.leave(said[1:])

    def _publish(self, source: Source, record: record_pb2.Record) -> None:
        import pyarrow as pa

        from scope_agentd.bus.messages import messages

        stream, sent = record.batch.stream, 0
        try:
            for message in messages(source, record):
                self._send(source, message)
                sent += message.events
        except pa.ArrowException as error:  # the readers see the gap in the numbers
            self._unreadable[stream] += record.batch.event_count - sent
            log.error("rows cannot be offered on the local bus", extra={"stream": stream, "reason": str(error)})
        self._sent[stream] += sent

    def _send(self, source: Source, message: Message) -> None:
        from scope_agentd.bus.messages import schema_of

        frames = [message.topic, schema_of(source.probe, message.stream), message.frame()]
        self._socket.send_multipart(frames, zmq.NOBLOCK)


def _bound(path: Path) -> "zmq.Socket[bytes]":
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.chmod(0o700)
        socket = zmq.Context().socket(zmq.XPUB)
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # tells of each reader that joins, not only of the first
        socket.setsockopt(zmq.SNDHWM, MOST_MESSAGES)
        socket.bind(f"ipc://{path}")  # replaces the socket of an agent that was killed
    except (OSError, zmq.ZMQError) as error:
        raise StateUnusable(f"cannot make the local bus {path}: {error.strerror}") from None
    return socket
