"""Renews the machine's certificate: over the session that it has, or, after an absence, without one.

The key stays: it is what the server knows this machine by.
"""

import asyncio
import logging
from typing import Any

import grpc
from cryptography.hazmat.primitives import serialization

from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_proto.scope.v1.enrolment_pb2 import ReturnRequest
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentStub
from scope_proto.scope.v1.session_pb2 import RenewRequest
from scope_wire.channel import open_channel
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress, InvalidCertificate
from scope_wire.identity import SERVER_NAME
from scope_wire.keys import Anonymous, signing_request

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

    If the server refuses this machine for good, the membership says so from then on, and stays as it is.
    """
    request = ReturnRequest(
        certificate=membership.credentials.certificate.public_bytes(serialization.Encoding.DER),
        signing_request=signing_request(membership.credentials.key),
    )
    trusted = Anonymous(membership.credentials.authorities)
    for address in membership.fleet.enrolments:
        try:
            at = Endpoint.parse(address, "enrolment")
            async with open_channel(at.showing(lambda: trusted), SERVER_NAME) as channel:
                stub: Any = EnrolmentStub(channel)
                answer = await stub.Return(request, timeout=_ANSWER_S)
            await _keep(membership, answer, at)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                continue  # it is away: another address, or later
            await _refuse(membership, _said(error))
        except (InvalidAddress, InvalidCertificate) as error:
            log.warning("the server's answer cannot be used", extra={"reason": _said(error)})
            continue
        return


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
