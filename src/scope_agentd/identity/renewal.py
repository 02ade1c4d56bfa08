"""Renews the machine's certificate: over the session that it has, or, after an absence, without one.

The key stays: it is what the server knows this machine by.
"""

import asyncio
import logging
from typing import Any

import grpc
from cryptography.hazmat.primitives import serialization

from scope_agentd.errors import NotJoined, SessionEnded
from scope_agentd.identity.introduction import certificate_of, followed
from scope_agentd.identity.membership import Membership
from scope_proto.scope.v1.enrolment_pb2 import GetAuthorityRequest, ReturnRequest
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentStub
from scope_proto.scope.v1.session_pb2 import RenewRequest
from scope_wire.channel import open_channel
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress, InvalidCertificate
from scope_wire.identity import SERVER_NAME, read_certificate
from scope_wire.keys import Anonymous, require_signed, signing_request

log = logging.getLogger(__name__)

_ANSWER_S = 5.0


async def renew(membership: Membership, stub: Any, at: Endpoint) -> None:
    """Gets a newer certificate over a session; the connection is then to be made anew, with it.

    Raises:
        SessionEnded: the certificate was renewed. If it was not, the server asks again.
    """
    request = RenewRequest(signing_request=signing_request(membership.credentials.key))
    try:
        answer = await stub.Renew(request, timeout=_ANSWER_S)
        await _keep(membership, answer, at)
    except (grpc.aio.AioRpcError, InvalidCertificate) as error:
        log.warning("the certificate was not renewed", extra={"reason": _said(error)})
        return
    raise SessionEnded("the certificate was renewed")


async def come_back(membership: Membership) -> None:
    """Asks the enrolment service for a newer certificate, without showing the one that no session is possible with.

    If the server refuses this machine for good, the membership says so from then on, and stays as it is. A server whose
    root was replaced meanwhile is known by what the replaced one has signed.
    """
    request = ReturnRequest(
        certificate=membership.credentials.certificate.public_bytes(serialization.Encoding.DER),
        signing_request=signing_request(membership.credentials.key),
    )
    for address in membership.fleet.enrolments:
        try:
            at = Endpoint.parse(address, "enrolment")
            await _keep(membership, await _return(membership, at, request), at)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                continue  # it is away: another address, or later
            await _refuse(membership, _said(error))
        except NotJoined:
            continue  # it is away
        except (InvalidAddress, InvalidCertificate) as error:
            log.warning("the server's answer cannot be used", extra={"reason": _said(error)})
            continue
        return


async def _return(membership: Membership, at: Endpoint, request: ReturnRequest) -> Any:
    trusted = await _trusted(membership, at)
    async with open_channel(at.showing(lambda: trusted), SERVER_NAME) as channel:
        stub: Any = EnrolmentStub(channel)
        return await stub.Return(request, timeout=_ANSWER_S)


async def _trusted(membership: Membership, at: Endpoint) -> Anonymous:
    """What to trust at an endpoint: the machine's roots or, if they were replaced, the certificate that is shown there.

    Raises:
        NotJoined: nothing answers there.
        InvalidCertificate: it is another server.
        grpc.aio.AioRpcError: it does not answer.
    """
    roots = membership.credentials.authorities
    shown = await asyncio.to_thread(certificate_of, at)
    try:
        require_signed(shown, *roots)
        return Anonymous(roots)
    except InvalidCertificate:
        only = Anonymous((shown,))
    async with open_channel(at.showing(lambda: only), SERVER_NAME) as channel:
        stub: Any = EnrolmentStub(channel)
        answer = await stub.GetAuthority(GetAuthorityRequest(), timeout=_ANSWER_S)
    require_signed(shown, *followed(roots, tuple(map(read_certificate, answer.vouched))))
    return only


async def admitted(membership: Membership) -> None:
    """Notes that the server has accepted this machine."""
    if membership.fleet.needs_token:
        await _refuse(membership, "")


async def _keep(membership: Membership, answer: Any, at: Endpoint) -> None:
    try:
        await asyncio.to_thread(membership.renew, answer, at)
    except OSError as error:  # it is in use until the next start, and then renewed again
        log.warning("the new certificate cannot be kept", extra={"reason": error.strerror})
    membership.judged.set()


async def _refuse(membership: Membership, reason: str) -> None:
    if reason and reason != membership.fleet.needs_token:
        log.error("the server refuses this machine; what is recorded stays in the spool", extra={"reason": reason})
    try:
        await asyncio.to_thread(membership.refuse, reason)
    except OSError as error:
        log.warning("cannot keep that the server refuses this machine", extra={"reason": error.strerror})
    membership.judged.set()


def _said(error: Exception) -> str:
    return (error.details() or error.code().name) if isinstance(error, grpc.aio.AioRpcError) else str(error)
