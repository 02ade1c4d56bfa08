"""The connection to the server, with both streams. After a break it reconnects, with growing pauses."""

import asyncio
import logging
import random
import time
from pathlib import Path

import grpc

from scope_agentd.errors import SessionEnded
from scope_agentd.session.attend import Attendance
from scope_agentd.session.upload import Upload
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_wire.channel import client_options
from scope_wire.errors import InvalidToken
from scope_wire.token import metadata, read_token

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LAST_PAUSE_S = 0.25, 15.0
_LASTED_S = 5.0  # after a connection that lasted this long, reconnect without a pause


class Link:
    """Keeps the agent connected to the server."""

    def __init__(self, address: str, token_file: Path, attendance: Attendance, upload: Upload) -> None:
        self._address, self._token_file = address, token_file
        self._attendance, self._upload = attendance, upload
        self.connections = 0
        self.connected = False

    async def run(self) -> None:
        """Connects and reconnects, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            reason = await self._until_broken()
            log.warning("no session with the server", extra={"address": self._address, "reason": reason})
            pause_s = FIRST_PAUSE_S if time.monotonic() - began > _LASTED_S else min(2 * pause_s, LAST_PAUSE_S)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))

    async def _until_broken(self) -> str:
        """Makes a connection and waits for its end; returns the reason of the end."""
        reasons: list[str] = []
        try:
            await self._connection()
        except* grpc.aio.AioRpcError as errors:
            reasons += [_said(error) for error in _leaves(errors)]
        except* (InvalidToken, SessionEnded) as errors:
            reasons += [_said(error) for error in _leaves(errors)]
        finally:
            self.connected = False
        return reasons[0] if reasons else "the server closed the connection"

    async def _connection(self) -> None:
        shown = metadata(await asyncio.to_thread(read_token, self._token_file))
        async with grpc.aio.insecure_channel(self._address, options=client_options()) as channel:
            stub = SessionStub(channel)
            async with asyncio.TaskGroup() as streams:
                welcome = asyncio.Event()
                streams.create_task(self._attendance.run(stub, shown, welcome))
                await welcome.wait()  # the server accepts an Upload only after Attend
                self.connections += 1
                self.connected = True
                log.info("session with the server", extra={"address": self._address})
                streams.create_task(self._upload.run(stub, shown))


def _leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _said(error: BaseException) -> str:
    return (error.details() or error.code().name) if isinstance(error, grpc.aio.AioRpcError) else str(error)
