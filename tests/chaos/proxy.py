"""A proxy between two parts of a stack that simulates network faults."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ports import free_port

_CHUNK = 64 << 10
_LOOK_S = 0.05


class Proxy:
    """Forwards connections in a thread of its own; its methods may be called from any thread.

    While nobody listens to the target, it does not listen either, so that clients look for another server at once.

    Args:
        target: a port of 127.0.0.1, or a Unix socket.
        listens: the Unix socket on which the proxy listens, in a folder that exists; without one, a port.

    Attributes:
        port: the port on which the proxy listens, unless it is a Unix socket.
    """

    def __init__(self, target: int | Path, listens: Path | None = None) -> None:
        self._target, self._listens = target, listens
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()  # cleared: bytes wait in both directions, without an error
        self._delay_s = 0.0
        self._replies = True
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._do(self._begin())

    def cut(self) -> None:
        """Resets every connection."""
        self._do(self._cut())

    def refuse(self, refuses: bool) -> None:
        """Resets every connection; until `refuse(False)`, resets new connections, too."""
        self._refuses = refuses
        self.cut()

    def stall(self, stalls: bool) -> None:
        """Silently stops forwarding data, or continues."""
        self._loop.call_soon_threadsafe(self._flows.clear if stalls else self._flows.set)

    def delay(self, seconds: float) -> None:
        """Forwards each piece of data this many seconds later."""
        self._delay_s = seconds

    def lose_replies(self, loses: bool) -> None:
        """Forwards data to the server, but drops its answers.

        `lose_replies(False)` resets every connection: a stream with missing bytes cannot continue.
        """
        self._replies = not loses
        if not loses:
            self.cut()

    def heal(self) -> None:
        """Ends all simulated faults and resets every connection."""
        self._delay_s, self._replies, self._refuses = 0.0, True, False
        self.stall(False)
        self.cut()

    def close(self) -> None:
        """Ends the proxy and its thread."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _begin(self) -> None:
        self._flows.set()
        self._follower = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        # Listens while the target is listened to; `_serve` finds out that it is not.
        while True:
            if self._server is None:
                with suppress(OSError):
                    _, probe = await self._reach()
                    probe.transport.abort()
                    self._server = await (
                        asyncio.start_unix_server(self._accept, self._listens)
                        if self._listens
                        else asyncio.start_server(self._accept, "127.0.0.1", self.port)
                    )
            await asyncio.sleep(_LOOK_S)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _deafen(self) -> None:
        if self._server:
            self._server.close()
            self._server = None

    async def _end(self) -> None:
        self._deafen()
        while serving := asyncio.all_tasks() - {asyncio.current_task()}:  # one that was accepted may begin now
            for one in serving:
                one.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
        await self._cut()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)  # here: a task that is canceled before it begins would leave it open
        self._serving.add(task := self._loop.create_task(self._serve(reader, writer)))
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            if not self._refuses:
                there, back = await self._reach()
                ends.add(back)
                self._writers.add(back)
                await self._forward((reader, back), (there, writer))
        except OSError:
            self._deafen()
        finally:
            for end in ends:
                end.transport.abort()
            self._writers -= ends

    async def _forward(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Forwards requests and replies, until either ends."""
        pumps = [
            asyncio.create_task(self._pump(*way, replies)) for way, replies in zip(ways, (False, True), strict=True)
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, replies: bool) -> None:
        with suppress(OSError):
            while piece := await source.read(_CHUNK):
                await self._flows.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if replies and not self._replies:
                    continue
                sink.write(piece)
                await sink.drain()
            await self._flows.wait()  # a stall hides the end of a connection, too
