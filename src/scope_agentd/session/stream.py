"""Writes to a stream that may have ended."""

import asyncio
from typing import Any

from scope_agentd.errors import SessionEnded


async def write(call: Any, message: Any) -> None:
    """Sends a message.

    Raises:
        grpc.aio.AioRpcError: the stream broke during the write.
        SessionEnded: the stream had ended before; gRPC raises another error for this.
    """
    try:
        await call.write(message)
    except asyncio.InvalidStateError:
        raise SessionEnded("the server ended the session") from None
