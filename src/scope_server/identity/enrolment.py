"""The gRPC service scope.v1.Enrolment: a machine gets its first certificate for a token."""

import logging
from typing import Any

import grpc
from cryptography.hazmat.primitives.serialization import Encoding

from scope_proto.scope.v1 import enrolment_pb2
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentServicer
from scope_server.errors import InvalidMessage, NotAdmitted, StoreUnavailable
from scope_server.identity.register import Register
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidCertificate, InvalidJoinToken
from scope_wire.identity import Identity, Kind
from scope_wire.join_token import JoinToken
from scope_wire.tls import require_tls_1_3

log = logging.getLogger(__name__)

_HOSTNAME = 255  # characters


def reached_at(listening: Endpoint) -> str:
    """The address to tell machines of a service: without a host if it listens on all addresses."""
    return f":{listening.port}" if listening.is_everywhere else str(listening)


class EnrolmentService(EnrolmentServicer):
    """Serves machines that have no certificate yet.

    Args:
        session_address: host:port of the session service, as told to the machines.

    Attributes:
        refused: joins refused so far.
    """

    def __init__(self, register: Register, session_address: str) -> None:
        self._register, self._session_address = register, session_address
        self.refused = 0

    async def GetAuthority(self, request: Any, context: Any) -> enrolment_pb2.Authority:
        """See enrolment.proto."""
        return enrolment_pb2.Authority(certificate=self._register.authority.certificate.public_bytes(Encoding.DER))

    async def Join(self, request: Any, context: Any) -> enrolment_pb2.Certificate:
        """See enrolment.proto."""
        try:
            if len(request.hostname) > _HOSTNAME or "\0" in request.hostname:
                raise InvalidMessage(f"hostname: must have at most {_HOSTNAME} characters and no NUL")
            require_tls_1_3(context.auth_context())
            machine, token = Identity(Kind.MACHINE, request.machine_id), JoinToken.read(request.token)
            signed = await self._register.join(token, request.signing_request, machine, request.hostname)
        except (NotAdmitted, InvalidMessage, InvalidCertificate, InvalidJoinToken) as error:
            self.refused += 1
            extra = {"peer": context.peer(), "hostname": request.hostname[:_HOSTNAME], "reason": str(error)}
            log.warning("a machine was not let in", extra=extra)
            denied = isinstance(error, NotAdmitted)
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED if denied else grpc.StatusCode.INVALID_ARGUMENT, str(error)
            )
            raise
        except StoreUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        return enrolment_pb2.Certificate(
            certificate=signed.public_bytes(Encoding.DER), session_address=self._session_address
        )
