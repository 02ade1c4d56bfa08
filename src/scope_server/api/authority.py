"""The fleet's authority: GET /authority, without a token, for a client that meets the server; and its replacement.

Its certificate is no secret. Whoever takes it from here must compare its fingerprint with one that an admin tells.
"""

import asyncio
from typing import Any

from aiohttp import web

from scope_server.api.context import DATABASE, REGISTER, SESSIONS
from scope_server.api.input import Parameters, fields
from scope_server.errors import NotOurs
from scope_wire.identity import holder_of, read_certificate
from scope_wire.keys import pem_of

PATH = "/api/v1/authority"


async def get_authority(request: web.Request) -> web.Response:
    """The certificate, in PEM."""
    Parameters(request, ())
    return web.json_response({"authority": pem_of(request.app[REGISTER].authority.certificate).decode()})


async def get_rotation(request: web.Request) -> web.Response:
    """Whether the authority is being replaced, and which machines have the next root."""
    Parameters(request, ())
    return web.json_response(await _progress(request))


async def begin(request: web.Request) -> web.Response:
    """Makes the next root: connected agents get it within seconds, others when they connect."""
    Parameters(request, ())
    await fields(request, ())
    await asyncio.to_thread(request.app[REGISTER].authority.begin_rotation)
    return web.json_response(await _progress(request))


async def finish(request: web.Request) -> web.Response:
    """The next root becomes the only one, unless a connected agent lacks it."""
    Parameters(request, ())
    await fields(request, ())
    progress = await _progress(request)
    lacking = [one["hostname"] for one in progress["machines"] if one["connected"] and not one["has_next"]]
    if lacking and progress["rotates"]:
        shown = ", ".join(lacking[:10]) + (" ..." if len(lacking) > 10 else "")
        raise NotOurs(
            f"{len(lacking)} connected agents lack the next root: {shown}; wait, or see why in their logs, or stop them"
        )
    await asyncio.to_thread(request.app[REGISTER].authority.finish_rotation)
    return web.json_response(await _progress(request))


async def _progress(request: web.Request) -> dict[str, Any]:
    authority, sessions = request.app[REGISTER].authority, request.app[SESSIONS]
    machines = {}
    for row in await request.app[DATABASE].fetch("member_certificates"):
        has_next = bool(row["certificate"]) and authority.is_newest(holder_of(read_certificate(row["certificate"])))
        one = {"machine_id": row["machine_id"], "hostname": row["hostname"], "connected": False, "has_next": has_next}
        machines[row["machine_id"]] = one
    for session in sessions.all():  # what an agent shows counts, not what was signed for it
        machine_id, has_next = session.machine.machine_id, authority.is_newest(session.holder)
        one = {"machine_id": machine_id, "hostname": session.hostname, "connected": True, "has_next": has_next}
        machines[machine_id] = one
    return {"rotates": authority.rotates, "machines": list(machines.values())}


ROUTES = [
    web.get(PATH, get_authority),
    web.get(f"{PATH}/rotation", get_rotation),
    web.post(f"{PATH}/rotation/begin", begin),
    web.post(f"{PATH}/rotation/finish", finish),
]
