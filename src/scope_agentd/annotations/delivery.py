"""Sends annotations to the server; they stay in the outbox until it has stored them."""

import asyncio
import time
from typing import Any

import grpc

from scope_agentd.annotations.outbox import Outbox
from scope_proto.scope.v1 import session_pb2

_AT_ONCE = 1000
_DEADLINE_S = 30.0
_PAUSE_S = 30.0  # after a refusal, such as by a server that does not know annotations yet


class Delivery:
    """The agent's side of Annotate."""

    def __init__(self, outbox: Outbox, news: asyncio.Event) -> None:
        self._outbox, self._news = outbox, news

    async def run(self, stub: Any) -> None:
        """Sends what waits and what comes, until cancelled. What the server does not take now is sent again later."""
        while True:
            self._news.clear()
            while waiting := await asyncio.to_thread(self._outbox.oldest, _AT_ONCE):
                request = session_pb2.AnnotateRequest(annotations=waiting, utc_ns=time.time_ns())
                try:
                    await stub.Annotate(request, timeout=_DEADLINE_S)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(_PAUSE_S)
                else:
                    await asyncio.to_thread(self._outbox.drop, waiting)
            await self._news.wait()
