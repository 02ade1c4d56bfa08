"""Joins a server: makes a key, and has it signed for a token.

The token has the digest of the authority's certificate, so the machine knows the server before it says the secret: the
authority that the server names must have this digest, and must have signed the certificate that the server shows.
"""

import asyncio
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from scope_agentd.errors import NotJoined, StateUnusable
from scope_agentd.identity.introduction import certificate_of
from scope_agentd.identity.membership import Fleet, Membership, addresses_of, credentials_of, keep
from scope_agentd.node import machine_id
from scope_proto.scope.v1.enrolment_pb2 import GetAuthorityRequest, JoinRequest
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentStub
from scope_wire.channel import open_channel, pushback_s
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidCertificate, InvalidKeyFile
from scope_wire.identity import SERVER_NAME, read_certificate
from scope_wire.join_token import JoinToken, digest_of
from scope_wire.keys import (
    Anonymous,
    Key,
    make_key,
    pem_of,
    read_private,
    require_signed,
    signing_request,
    write_private,
)

_ANSWER_S = 15.0
_PATIENCE_S = 30.0
_AGAIN_S = 1.0
# gRPC says UNKNOWN, too, of a connection that broke: "Stream removed".
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED)


async def join(server: str, token: JoinToken, state_dir: Path) -> None:
    """Makes this machine a member, unless it has joined with this token before.

    With another token, a member joins again: with its key if the server refuses this machine otherwise, so that it
    stays the same machine; else with a new key, since only a copy of a machine has to. If that fails, it stays a
    member.

    Args:
        server: host:port of the server's enrolment service.

    Raises:
        InvalidAddress: `server` is not host:port.
        NotJoined: the server does not answer, is another one, or refuses; the message says why.
        StateUnusable: the state directory cannot be written to.
    """
    to = Endpoint.parse(server, "join")
    before = _membership(state_dir)
    if before and before.fleet.token == token.secret_digest.hex():
        return
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _kept_key(state_dir / "joining.pem", before)
        request = JoinRequest(
            token=str(token),
            signing_request=signing_request(key),
            machine_id=before.machine_id if before else machine_id(state_dir),
            hostname=socket.gethostname(),
        )
        authority, answer = await _signed(to, token, request)
        credentials = credentials_of(answer, key, (authority,))
        fleet = Fleet(token.authority.hex(), token.secret_digest.hex(), *addresses_of(answer, to))
        keep(state_dir, credentials, fleet)
        (state_dir / "joining.pem").unlink()
    except grpc.aio.AioRpcError as error:
        raise NotJoined(f"{server}: {error.details() or error.code().name}") from None
    except StateUnusable:
        raise
    except InvalidCertificate as error:
        raise NotJoined(f"{server}: {error}") from None
    except OSError as error:
        raise StateUnusable(f"cannot use the state directory {state_dir}: {error.strerror or error}") from None


async def _signed(to: Endpoint, token: JoinToken, request: JoinRequest) -> tuple[x509.Certificate, Any]:
    """The server's authority, and its answer. It is asked again as long as it says so, since its database may be away
    for a moment, and if the connection breaks.

    Raises:
        NotJoined: nothing there enrols machines, or it is not the server that made the token.
        InvalidCertificate: the server's certificate is not of its authority.
        grpc.aio.AioRpcError: it refuses, or could not sign in time.
    """
    end = time.monotonic() + _PATIENCE_S
    shown = await asyncio.to_thread(certificate_of, to)
    authority: x509.Certificate | None = None
    while True:
        try:
            async with open_channel(to.showing(lambda: Anonymous((shown,))), SERVER_NAME) as channel:
                stub: Any = EnrolmentStub(channel)
                authority = await _authority(stub, token, shown)
                return authority, await stub.Join(request, timeout=_ANSWER_S)
        except grpc.aio.AioRpcError as error:
            pause_s = pushback_s(error) or (_AGAIN_S if error.code() in _BROKEN else None)
            if not authority and error.code() is grpc.StatusCode.UNAVAILABLE:  # such as another port of a server
                raise NotJoined(f"no server enrols machines at {to}: {error.details()}") from None
            if pause_s is None or time.monotonic() + pause_s > end:
                raise
        await asyncio.sleep(pause_s)


def _membership(state_dir: Path) -> Membership | None:
    try:
        return Membership(state_dir)
    except NotJoined:
        return None


def _kept_key(file: Path, before: Membership | None) -> Key:
    """The key to be signed; the same one after a crash, so that the token still holds for it.

    Raises:
        OSError: it cannot be kept.
    """
    try:
        key = serialization.load_pem_private_key(read_private(file), None)
    except (InvalidKeyFile, ValueError):
        key = None
    if not isinstance(key, Key):
        refused = before and (before.fleet.needs_token or before.credentials.holder.expires < datetime.now(UTC))
        key = before.credentials.key if before and refused else make_key()
        write_private(file, pem_of(key))
    return key


async def _authority(stub: Any, token: JoinToken, shown: x509.Certificate) -> x509.Certificate:
    """The server's authority.

    Raises:
        NotJoined: it is not that of the token.
        InvalidCertificate: it did not sign the server's certificate.
    """
    answer = await stub.GetAuthority(GetAuthorityRequest(), timeout=_ANSWER_S)
    authority = read_certificate(answer.certificate)
    if digest_of(authority) != token.authority:
        raise NotJoined("this is not the server that made the token: its authority is another one")
    require_signed(shown, authority)
    return authority
