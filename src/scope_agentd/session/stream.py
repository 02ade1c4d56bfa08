"""Writing to a stream that may have ended meanwhile."""

import asyncio
from typing import Any

from scope_agentd.errors import SessionEnded


async def write(call: Any, message: Any) -> None:
    """Sends a message.

    Raises:
        grpc.aio.AioRpcError: the stream broke while it was sent.
        SessionEnded: it had ended before, which gRPC tells in another way.
    """
    try:
        await call.write(message)
    except asyncio.InvalidStateError:
        raise SessionEnded("the server ended the session") from None
