"""Certificates of persons and machines, and tokens with which machines join."""

import base64
import binascii
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.api.context import ENROLMENTS, MEMBERS, REGISTER
from scope_server.api.resources.members import Labels
from scope_server.api.routing.call import Call
from scope_server.api.routing.input import quoted
from scope_server.api.routing.models import Answer, Body, Names, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import InvalidQuery, UnknownThing
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Identity, Kind
from scope_wire.identity import Role as PersonRole
from scope_wire.keys import pem_of

ROUTES = Routes()

LONGEST_TOKEN_S = 30 * 86400.0
TOKEN_S = 3600.0
MOST_USES = 100_000


def _base64(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None


def _role(text: Any) -> PersonRole:
    try:
        return PersonRole(text)
    except ValueError:
        raise ValueError(f"{quoted(text)} is not one of {', '.join(PersonRole)}") from None


class TokenWish(Body):
    """A token with which machines may join."""

    valid: float = Field(TOKEN_S, gt=0, le=LONGEST_TOKEN_S, description="in seconds")
    uses: int = Field(1, ge=1, le=MOST_USES, description="how many machines may join with it")
    labels: Labels = Field({}, description="of the machines that join with it")


class JoinToken(Answer):
    """A token with which machines join; it is shown this once."""

    token: str
    valid: float
    uses: int
    labels: Names
    addresses: list[str] = Field(
        description="where machines join, for `scope agentd --join`; `:PORT`: at this server's host; empty: not here"
    )


class Certificate(Answer):
    """A certificate that the authority has signed."""

    serial: str
    kind: str = Field(description="machine or operator")
    name: str = Field(description="the machine's id, or the person's name")
    role: str | None
    hostname: str | None
    issued: datetime
    expires: datetime
    revoked: datetime | None


class Certificates(Answer):
    """Certificates."""

    certificates: list[Certificate]


class Signing(Body):
    """A person's key to be signed."""

    name: str
    role: Annotated[PersonRole, BeforeValidator(_role)] = PersonRole.VIEWER
    signing_request: Annotated[
        bytes, BeforeValidator(_base64), WithJsonSchema({"type": "string", "contentEncoding": "base64"})
    ] = Field(description="PKCS #10, in DER")


class Signed(Answer):
    """A person's certificate."""

    certificate: str = Field(description="in PEM")
    authority: str = Field(description="certificates of the authority, in PEM")


class CertificatePath(Parameters):
    """Which certificates."""

    name: Annotated[str, Field(max_length=64, description="a serial number, or the person's name")]


class Revoked(Answer):
    """How many certificates were revoked."""

    revoked: int


@ROUTES.post(f"{PREFIX}/join-tokens", Role.ADMIN, audited="join_token.make", status=201)
async def make_join_token(call: Call, body: TokenWish) -> JoinToken:
    """Make a token with which machines join."""
    token = await call[MEMBERS].make_token(timedelta(seconds=body.valid), body.uses, body.labels)
    addresses = call[ENROLMENTS].enrolments()
    return JoinToken(token=str(token), valid=body.valid, uses=body.uses, labels=body.labels, addresses=addresses)


@ROUTES.get(f"{PREFIX}/certificates", Role.ADMIN)
async def get_certificates(call: Call) -> Certificates:
    """The certificates that have not expired, newest first."""
    return Certificates(certificates=[Certificate(**row) for row in await call[REGISTER].all()])


@ROUTES.post(f"{PREFIX}/certificates", Role.ADMIN, audited="certificate.sign", status=201)
async def sign_certificate(call: Call, body: Signing) -> Signed:
    """Sign the key of a person, for calls of agents."""
    register = call[REGISTER]
    try:
        identity = Identity(Kind.OPERATOR, body.name, body.role)
    except InvalidCertificate as error:
        raise InvalidQuery(str(error), pointer="/name") from None
    signed = await register.sign(body.signing_request, identity)
    return Signed(
        certificate=pem_of(signed).decode(), authority=b"".join(map(pem_of, register.authority.trusted)).decode()
    )


@ROUTES.post(f"{PREFIX}/certificates/{{name}}/revoke", Role.ADMIN, audited="certificate.revoke")
async def revoke_certificate(call: Call, path: CertificatePath) -> Revoked:
    """Revoke a person's certificate with this serial number, or all with this name."""
    revoked = await call[REGISTER].revoke_person(path.name)
    if not revoked:
        raise UnknownThing(f"no valid certificate of a person has the serial number or name {quoted(path.name)}")
    return Revoked(revoked=revoked)
