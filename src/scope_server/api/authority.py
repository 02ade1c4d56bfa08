"""GET /authority, without a token: the certificate of the fleet's authority, for a client that meets the server.

It is no secret. Whoever takes it from here must compare its fingerprint with one that an admin tells.
"""

from aiohttp import web

from scope_server.api.context import REGISTER
from scope_server.api.input import Parameters
from scope_wire.keys import pem_of

PATH = "/api/v1/authority"


async def get_authority(request: web.Request) -> web.Response:
    """The certificate, in PEM."""
    Parameters(request, ())
    return web.json_response({"authority": pem_of(request.app[REGISTER].authority.certificate).decode()})


ROUTES = [web.get(PATH, get_authority)]
