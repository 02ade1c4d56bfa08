"""Certificates: GET and POST /certificates, POST /certificates/NAME/revoke; tokens: POST /join-tokens."""

import base64
from datetime import timedelta

from aiohttp import web

from scope_server.api.context import MEMBERS, REGISTER
from scope_server.api.input import Parameters, fields, number, quoted, text, whole
from scope_server.api.members import labels_of
from scope_server.api.output import plain
from scope_server.errors import InvalidQuery, UnknownThing
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Identity, Kind, Role
from scope_wire.keys import pem_of

LONGEST_TOKEN_S = 30 * 86400.0
TOKEN_S = 3600.0
MOST_USES = 100_000
ROLES = tuple(role.value for role in Role)


async def make_token(request: web.Request) -> web.Response:
    """A token with which machines join."""
    Parameters(request, ())
    body = await fields(request, ("valid", "uses", "labels"))
    valid_s = number(body.get("valid", TOKEN_S), "valid", 0, LONGEST_TOKEN_S)
    uses = whole(body.get("uses", 1), "uses", 1, MOST_USES)
    labels = labels_of(body.get("labels"), "labels")
    token = await request.app[MEMBERS].make_token(timedelta(seconds=valid_s), uses, labels)
    return web.json_response({"token": str(token), "valid": valid_s, "uses": uses, "labels": labels}, status=201)


async def get_certificates(request: web.Request) -> web.Response:
    """The certificates that have not expired, newest first."""
    Parameters(request, ())
    return web.json_response({"certificates": [plain(row) for row in await request.app[REGISTER].all()]})


async def sign(request: web.Request) -> web.Response:
    """Signs the key of a person, for calls of agents; answers with its certificate and the authority's, in PEM."""
    Parameters(request, ())
    body = await fields(request, ("name", "role", "signing_request"))
    role = text(body.get("role", Role.VIEWER.value), "role")
    if role not in ROLES:
        raise InvalidQuery(f"role: {quoted(role)} is not one of {', '.join(ROLES)}")
    try:
        asked = base64.b64decode(text(body.get("signing_request", ""), "signing_request"), validate=True)
        identity = Identity(Kind.OPERATOR, text(body.get("name", ""), "name"), Role(role))
    except InvalidCertificate as error:
        raise InvalidQuery(str(error)) from None
    except ValueError:
        raise InvalidQuery("signing_request: it is not base64") from None
    register = request.app[REGISTER]
    signed = await register.sign(asked, identity)
    answer = {
        "certificate": pem_of(signed).decode(),
        "authority": b"".join(map(pem_of, register.authority.trusted)).decode(),
    }
    return web.json_response(answer, status=201)


async def revoke(request: web.Request) -> web.Response:
    """Revokes a person's certificate with this serial number, or all with this name."""
    Parameters(request, ())
    await fields(request, ())
    which = text(request.match_info["name"], "name", 64)
    revoked = await request.app[REGISTER].revoke_person(which)
    if not revoked:
        raise UnknownThing(f"no valid certificate of a person has the serial number or name {quoted(which)}")
    return web.json_response({"revoked": revoked})


ROUTES = [
    web.post("/api/v1/join-tokens", make_token),
    web.get("/api/v1/certificates", get_certificates),
    web.post("/api/v1/certificates", sign),
    web.post("/api/v1/certificates/{name}/revoke", revoke),
]
