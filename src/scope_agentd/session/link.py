"""The connection to the server, with both streams. After a break it reconnects, with growing pauses."""

import asyncio
import logging
import random
import time
import traceback
from datetime import UTC, datetime
from typing import Any, Protocol

import grpc

from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_agentd.identity.renewal import admitted, come_back
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_wire.background import TaskGroup
from scope_wire.channel import open_channel, pushback_s
from scope_wire.endpoint import Endpoint
from scope_wire.identity import SERVER_NAME

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LAST_PAUSE_S = 0.25, 8.0  # so that control is back within 15 s, with the start of a server
ASK_EVERY_S = 30.0
_LONGEST_PUSHBACK_S = 60.0
_LASTED_S = 5.0  # after a connection that lasted this long, reconnect without a pause


class Attends(Protocol):
    """The first stream of a connection."""

    async def run(self, stub: SessionStub, at: Endpoint, welcome: asyncio.Event) -> None:
        """Runs until the stream breaks; sets `welcome` when the server's first Wanted has arrived.

        Raises:
            grpc.aio.AioRpcError, SessionEnded: it broke.
        """


class Uploads(Protocol):
    """The stream of records, which begins after the welcome."""

    async def run(self, stub: SessionStub) -> None:
        """Runs until the stream breaks.

        Raises:
            grpc.aio.AioRpcError, SessionEnded: it broke.
        """


class Delivers(Protocol):
    """What is sent by calls of its own, after the welcome."""

    async def run(self, stub: Any) -> None:
        """Runs until cancelled."""


class Link:
    """Keeps the agent connected to the server.

    Args:
        server: host:port of its session service, if it is another than the membership knows.

    Raises:
        NotJoined: the address cannot be used.
    """

    def __init__(
        self,
        membership: Membership,
        server: str | None,
        attendance: Attends,
        upload: Uploads,
        *also: Delivers,
    ) -> None:
        self.membership, self._given = membership, server
        self._server = membership.endpoints(server)[0]
        self._tries = 0
        self._attendance, self._upload, self._also = attendance, upload, also
        self.connections = 0
        self.connected = False

    async def run(self) -> None:
        """Connects and reconnects, until cancelled."""
        pause_s, ask_at = FIRST_PAUSE_S, self._first_ask_at()
        while True:
            began = time.monotonic()
            known = self.membership.endpoints(self._given)
            self._server = known[self._tries % len(known)]
            served = self.connections
            reason = await self._until_broken()
            log.warning("no session with the server", extra={"address": str(self._server), "reason": reason})
            pause_s = FIRST_PAUSE_S if time.monotonic() - began > _LASTED_S else min(2 * pause_s, LAST_PAUSE_S)
            if served != self.connections:
                ask_at = self._first_ask_at()
            else:
                self._tries += 1
                if time.monotonic() >= ask_at:  # gRPC does not tell that the server refused the certificate
                    await come_back(self.membership)
                    ask_at = time.monotonic() + ASK_EVERY_S
            await asyncio.sleep(pause_s * random.uniform(0.0, 1.0))  # a fleet returns spread over the whole pause

    def _first_ask_at(self) -> float:
        """When to ask first for another certificate: at once if it seems to have expired, else after a while, since a
        server that was away would be asked by all its agents."""
        expired = self.membership.credentials.holder.expires < datetime.now(UTC)
        return time.monotonic() + (0.0 if expired else ASK_EVERY_S)

    async def _until_broken(self) -> str:
        """Makes a connection and waits for its end; returns the reason of the end."""
        reasons: list[str] = []
        try:
            await self._connection()
        except* (grpc.aio.AioRpcError, SessionEnded) as errors:
            reasons += [_said(error) for error in _leaves(errors)]
            _clear_frames(errors)
        finally:
            self.connected = False
        return reasons[0] if reasons else "the server closed the connection"

    async def _connection(self) -> None:
        async with open_channel(self._server, SERVER_NAME) as channel:
            stub = SessionStub(channel)
            while (pause_s := await self._streams(stub)) is not None:
                await asyncio.sleep(pause_s)

    async def _streams(self, stub: SessionStub) -> float | None:
        """Runs both streams until they break. If the server is busy, returns when to try again, on the same
        connection: a handshake costs the server as much as the rest."""
        pause_s: float | None = None
        try:
            async with TaskGroup() as streams:
                welcome = asyncio.Event()
                streams.create_task(self._attendance.run(stub, self._server, welcome))
                await welcome.wait()  # the server accepts an Upload only after Attend
                self.connections += 1
                self.connected = True
                await admitted(self.membership)
                log.info("session with the server", extra={"address": str(self._server)})
                streams.create_task(self._upload.run(stub))
                for one in self._also:
                    streams.create_task(one.run(stub))
        except* grpc.aio.AioRpcError as errors:
            pause_s = _pause_s(errors)
            if pause_s is None:
                raise
            _clear_frames(errors)
        return pause_s


def _leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _clear_frames(error: BaseException) -> None:
    """Lets go of what the frames of an error hold: the calls of a closed channel, without which its sockets close.

    A task group's error and its traceback hold each other, so that else only the garbage collector closed them.
    """
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _clear_frames(each)


def _pause_s(errors: BaseExceptionGroup[BaseException]) -> float | None:
    """After how many seconds the server wants to be called again; None: it does not say so."""
    told = (pushback_s(error) for error in _leaves(errors) if isinstance(error, grpc.aio.AioRpcError))
    return next((min(pause_s, _LONGEST_PUSHBACK_S) for pause_s in told if pause_s is not None), None)


def _said(error: BaseException) -> str:
    return (error.details() or error.code().name) if isinstance(error, grpc.aio.AioRpcError) else str(error)
