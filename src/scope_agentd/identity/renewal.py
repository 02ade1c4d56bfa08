"""Renews the machine's certificate, over the connection that it has."""

import asyncio
import logging
from typing import Any

import grpc

from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_proto.scope.v1.session_pb2 import RenewRequest
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import read_certificate
from scope_wire.keys import Credentials, make_key, signing_request

log = logging.getLogger(__name__)

_ANSWER_S = 15.0


async def renew(membership: Membership, stub: Any) -> None:
    """Gets a certificate for a new key; the connection is then to be made anew, with it.

    Raises:
        SessionEnded: the certificate was renewed. If it was not, the server asks again.
    """
    key = make_key()
    try:
        answer = await stub.Renew(RenewRequest(signing_request=signing_request(key)), timeout=_ANSWER_S)
        credentials = Credentials(key, read_certificate(answer.certificate), membership.credentials.authorities)
    except (grpc.aio.AioRpcError, InvalidCertificate) as error:
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        log.warning("the certificate was not renewed", extra={"reason": str(said)})
        return
    try:
        await asyncio.to_thread(membership.renew, credentials)
    except OSError as error:  # it is in use until the next start, and then renewed again
        log.warning("the new certificate cannot be kept", extra={"reason": error.strerror})
    raise SessionEnded("the certificate was renewed")
