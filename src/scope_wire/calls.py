"""Bounds the calls of each certificate: how many it has at a time, and how long one may wait for its only message.

gRPC reads the message of a call that has only one before it calls the handler. A caller whose message never comes would
hold a place of the server for as long as it likes, and with all places it would shut out everybody else. So each
handler is called at once, and its message is read here.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from scope_wire.channel import Options
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import caller_of
from scope_wire.refused.refusals import Reason, Refusals

MOST_CALLS = 16  # at a time; an agent has four: two streams, a renewal, annotations
MESSAGE_S = 30.0
BOUNDS: Options = [("grpc.max_concurrent_streams", MOST_CALLS)]  # of a connection: more of them wait at the caller
_NOBODY = ""  # whose certificate has no name that can be read; handlers refuse them


class BoundCalls(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses and counts calls of a certificate's name beyond `MOST_CALLS`, on however many connections.

    Handlers of streams must write their answers themselves.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._open: Counter[str] = Counter()

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of the call, as one that reads its messages itself."""
        handler: Any = await continuation(details)
        if handler is None:
            return None
        answers = "stream" if handler.response_streaming else "unary"
        call = getattr(handler, f"{'stream' if handler.request_streaming else 'unary'}_{answers}")
        bounded = self._bounded(call, only_message=not handler.request_streaming)
        make: Any = getattr(grpc, f"stream_{answers}_rpc_method_handler")
        return make(bounded, handler.request_deserializer, handler.response_serializer)

    def _bounded(self, call: Any, *, only_message: bool) -> Any:
        async def bounded(messages: Any, context: Any) -> Any:
            name = _name_of(context)
            if self._open[name] >= MOST_CALLS:
                said = f"{name or 'the caller'} has {MOST_CALLS} unfinished calls already"
                self._refusals.note(Reason.CALLS, said, context.peer())
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, said)
            with self._place(name):
                return await call(await _only(messages, context) if only_message else messages, context)

        return bounded

    @contextmanager
    def _place(self, name: str) -> Iterator[None]:
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


def _name_of(context: Any) -> str:
    try:
        return caller_of(context.auth_context()).identity.uri
    except InvalidCertificate:
        return _NOBODY


async def _only(messages: AsyncIterator[Any], context: Any) -> Any:
    """The message of a call that has one; ends the call if it does not come."""
    try:
        async with asyncio.timeout(MESSAGE_S):
            return await anext(aiter(messages))
    except TimeoutError:
        said = f"no message within {MESSAGE_S:g} s"
    except StopAsyncIteration:
        said = "the call ended without a message"
    return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, said)
