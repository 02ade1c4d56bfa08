"""Authorization: a call needs a person's certificate, whose role allows it.

Health and reflection reveal nothing secret: every certificate of the fleet may call them.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from scope_agentd.identity.membership import Membership
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Kind, Role, caller_of

log = logging.getLogger(__name__)

_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_SEES = ("GetNode", "ListProbes", "ListTasks", "WatchTasks")  # what a viewer may call, too


class RequireRole(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses calls that the role in the caller's certificate does not allow, and notes those that change something."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of the call, behind a check; interceptors do not know the caller, handlers do."""
        handler: Any = await continuation(details)
        if handler is None or details.method.startswith(_OPEN):
            return handler
        method = details.method.rpartition("/")[2]
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._checked_stream(handler.unary_stream, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._checked(handler.unary_unary, method), handler.request_deserializer, handler.response_serializer
        )

    def _checked(self, call: Any, method: str) -> Any:
        async def checked(request: Any, context: Any) -> Any:
            await self._require(context, method)
            return await call(request, context)

        return checked

    def _checked_stream(self, call: Any, method: str) -> Any:
        async def checked(request: Any, context: Any) -> Any:
            await self._require(context, method)
            async for answer in call(request, context):
                yield answer

        return checked

    async def _require(self, context: Any, method: str) -> None:
        """Ends the call unless its caller may make it."""
        try:
            holder = caller_of(context.auth_context())
            if holder.serial in self._membership.revoked:
                raise InvalidCertificate(f"the certificate {holder.serial} was revoked")
        except InvalidCertificate as error:
            log.warning("a call was refused", extra={"reason": str(error), "method": method, "peer": context.peer()})
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            raise
        caller = holder.identity
        if caller.kind is not Kind.OPERATOR or (caller.role is not Role.OPERATOR and method not in _SEES):
            log.warning("a call was refused", extra={"caller": caller.uri, "method": method, "peer": context.peer()})
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{caller.uri} may not call {method}; `scope admin client-cert NAME FILE --role operator` on the "
                "server makes a certificate that may",
            )
        if method not in _SEES:
            log.info("a person changes tasks", extra={"caller": caller.uri, "method": method})
