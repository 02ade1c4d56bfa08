"""Authorization: a call needs a person's certificate, whose role allows it.

Health and reflection reveal nothing secret: every certificate of the fleet may call them.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from inspect import isasyncgen
from typing import Any

import grpc

from scope_agentd.identity.membership import Membership
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Holder, Kind, Role, caller_of
from scope_wire.refused.refusals import Reason, Refusals

log = logging.getLogger(__name__)

_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_SEES = ("GetNode", "ListProbes", "ListTasks", "WatchTasks")  # what a viewer may call, too
_CHANGES = (Role.OPERATOR, Role.ADMIN)  # who may call the others
_HANDLERS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class _Refused(Exception):
    def __init__(self, code: grpc.StatusCode, reason: Reason, said: str) -> None:
        super().__init__(said)
        self.code, self.reason = code, reason


class RequireRole(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses and counts calls that the caller's certificate does not allow; notes those that change something."""

    def __init__(self, membership: Membership, refusals: Refusals) -> None:
        self._membership, self._refusals = membership, refusals

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of the call, behind a check; interceptors do not know the caller, handlers do."""
        handler: Any = await continuation(details)
        if handler is None:
            return None
        kind = next(kind for kind in _HANDLERS if getattr(handler, kind))
        checked = self._checked_stream if handler.response_streaming else self._checked
        return handler._replace(**{kind: checked(getattr(handler, kind), details.method)})

    def _checked(self, call: Any, method: str) -> Any:
        async def checked(request: Any, context: Any) -> Any:
            await self._require(context, method)
            return await call(request, context)

        return checked

    def _checked_stream(self, call: Any, method: str) -> Any:
        async def checked(request: Any, context: Any) -> None:
            await self._require(context, method)
            answers = call(request, context)
            if not isasyncgen(answers):  # it writes its answers itself
                await answers
                return
            async with aclosing(answers):
                async for answer in answers:
                    await self._require(context, method)  # the certificate may have been revoked meanwhile
                    await context.write(answer)

        return checked

    async def _require(self, context: Any, method: str) -> None:
        """Ends the call unless its caller may make it."""
        try:
            holder = self._holder(context)
            if not method.startswith(_OPEN):
                _require_role(holder, method.rpartition("/")[2])
        except _Refused as refused:
            self._refusals.note(refused.reason, str(refused), context.peer())
            await context.abort(refused.code, str(refused))

    def _holder(self, context: Any) -> Holder:
        """Who calls, with a certificate that is still valid."""
        code = grpc.StatusCode.UNAUTHENTICATED
        try:
            holder = caller_of(context.auth_context())
        except InvalidCertificate as error:
            raise _Refused(code, Reason.INVALID, str(error)) from None
        if holder.serial in self._membership.revoked:
            raise _Refused(code, Reason.REVOKED, f"the certificate {holder.serial} was revoked")
        if holder.expires < datetime.now(UTC):
            raise _Refused(code, Reason.EXPIRED, f"the certificate {holder.serial} has expired")
        return holder


def _require_role(holder: Holder, method: str) -> None:
    caller, code = holder.identity, grpc.StatusCode.PERMISSION_DENIED
    remedy = "`scope admin client-cert NAME --role operator` on the server makes a certificate that may"
    said = f"{caller.uri} may not call {method}; {remedy}"
    if caller.kind is not Kind.OPERATOR:
        raise _Refused(code, Reason.NOT_A_PERSON, said)
    if method in _SEES:
        return
    if caller.role not in _CHANGES:
        raise _Refused(code, Reason.ROLE, said)
    log.info("a person changes tasks", extra={"caller": caller.uri, "method": method})
