"""Authentication: a call needs the bearer token. Health and reflection reveal nothing secret and need no token."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from scope_wire.errors import InvalidToken
from scope_wire.token import read_token, shows

_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")


class RequireToken(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses calls without `authorization: Bearer TOKEN`. The file is read for each call, so a token can be
    replaced."""

    def __init__(self, token_file: Path) -> None:
        self._token_file = token_file

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """Passes the call on, or answers UNAUTHENTICATED."""
        if details.method.startswith(_OPEN) or self._is_shown(details):
            return await continuation(details)
        return _refusing(await continuation(details))

    def _is_shown(self, details: grpc.HandlerCallDetails) -> bool:
        try:
            token = read_token(self._token_file)
        except InvalidToken:
            return False
        return shows(dict(details.invocation_metadata or ()).get("authorization"), token)


def _refusing(handler: Any) -> Any:
    """A handler of the same kind that refuses the call."""

    async def refuse(_: Any, context: Any) -> None:
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            "the token is missing or wrong; send -H 'authorization: Bearer TOKEN' with the token from the token file",
        )

    if handler is None or not handler.response_streaming:
        return grpc.unary_unary_rpc_method_handler(refuse)
    return grpc.unary_stream_rpc_method_handler(refuse)
