"""The gRPC service scope.v1.Enrolment: machines that have no valid certificate get one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from scope_proto.scope.v1 import enrolment_pb2
from scope_proto.scope.v1.enrolment_pb2_grpc import EnrolmentServicer
from scope_server.errors import InvalidMessage, NotAdmitted, StoreUnavailable
from scope_server.identity.answer import Answers
from scope_server.identity.authority import read_request
from scope_server.identity.members import Joining
from scope_server.identity.peers import address_of
from scope_server.identity.register import Register
from scope_wire.channel import pushback
from scope_wire.errors import InvalidCertificate, InvalidJoinToken
from scope_wire.identity import Identity, Kind, holder_of, key_digest, read_certificate
from scope_wire.join_token import JoinToken
from scope_wire.keys import require_signed
from scope_wire.refused.refusals import Reason
from scope_wire.tls import require_tls_1_3

_HOSTNAME = 255  # characters
_AGAIN_S = 1.0  # when a machine is to ask again that the database could not answer for


class EnrolmentService(EnrolmentServicer):
    """Serves machines that have no valid certificate."""

    def __init__(self, register: Register, answers: Answers) -> None:
        self._register, self._answers = register, answers

    async def GetAuthority(self, request: Any, context: Any) -> enrolment_pb2.Authority:
        """See enrolment.proto."""
        authority = self._register.authority
        return enrolment_pb2.Authority(
            certificate=authority.certificate.public_bytes(Encoding.DER),
            vouched=[each.public_bytes(Encoding.DER) for each in authority.vouched],
        )

    async def Join(self, request: Any, context: Any) -> enrolment_pb2.Certificate:
        """See enrolment.proto."""
        async with self._explained(context):
            if len(request.hostname) > _HOSTNAME or "\0" in request.hostname:
                raise InvalidMessage(f"hostname: must have at most {_HOSTNAME} characters and no NUL")
            claimed, token = Identity(Kind.MACHINE, request.machine_id), JoinToken.read(request.token)
            joining = Joining(token, request.signing_request, claimed, request.hostname, address_of(context.peer()))
            return self._answers.with_certificate(await self._register.members.join(joining))

    async def Return(self, request: Any, context: Any) -> enrolment_pb2.Certificate:
        """See enrolment.proto. A request may be seen and repeated: its answer is of use only to who has the key."""
        async with self._explained(context):
            before, authority = read_certificate(request.certificate), self._register.authority
            try:
                require_signed(before, *authority.trusted, *authority.replaced)
            except InvalidCertificate as error:
                raise NotAdmitted(Reason.AUTHORITY, f"{error}; join this server with a new token") from None
            holder = holder_of(before)
            if holder.identity.kind is not Kind.MACHINE:
                raise NotAdmitted(Reason.NOT_A_MACHINE, f"the certificate is of {holder.identity.uri}; machines return")
            if key_digest(read_request(request.signing_request)) != holder.key:
                raise NotAdmitted(Reason.OTHER_MACHINE, "signing_request: it is of another key than the certificate")
            self._register.require_not_ended(holder)
            if not _is_signed(before, authority.trusted):  # a root may have been replaced because its key was stolen
                await self._register.members.require_joined(holder)
            grace = self._register.members.grace
            if datetime.now(UTC) - holder.expires > grace:
                raise NotAdmitted(
                    Reason.EXPIRED,
                    f"the certificate has expired on {holder.expires:%Y-%m-%d}, more than {grace.days} days ago; join "
                    "again with a new token",
                )
            if self._register.is_fresh(holder):  # it asks because of something else, such as a port that is closed
                return self._answers.with_certificate(before)
            await self._register.members.know(holder, "")
            return self._answers.with_certificate(
                await self._register.members.renew(request.signing_request, holder, None, address_of(context.peer()))
            )

    @asynccontextmanager
    async def _explained(self, context: Any) -> AsyncIterator[None]:
        """Turns errors into a gRPC status for the machine, and counts refusals."""
        try:
            require_tls_1_3(context.auth_context())
            yield
        except NotAdmitted as error:
            self._register.refusals.note(error.reason, str(error), context.peer())
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except (InvalidMessage, InvalidCertificate, InvalidJoinToken) as error:
            self._register.refusals.note(Reason.INVALID, str(error), context.peer())
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except StoreUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error), pushback(_AGAIN_S))


def _is_signed(certificate: x509.Certificate, roots: tuple[x509.Certificate, ...]) -> bool:
    try:
        require_signed(certificate, *roots)
    except InvalidCertificate:
        return False
    return True
