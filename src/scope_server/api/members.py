"""POST /nodes/NODE/labels, /remove, /revoke and /confirm: a machine's membership."""

import re
from typing import Any

from aiohttp import web

from scope_server.api.context import MEMBERS, REGISTER
from scope_server.api.input import Parameters, fields, quoted, text
from scope_server.api.machines import no_machine
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.identity.refusals import Reason

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9._:/@+-]{1,63}")
_MOST_LABELS = 64


def labels_of(given: Any, name: str) -> dict[str, str]:
    """Labels in a body.

    Raises:
        InvalidQuery: they are not valid.
    """
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_LABELS:
        raise InvalidQuery(f"{name}: must be an object with at most {_MOST_LABELS} members")
    for key, value in given.items():
        _check_name(key, name)
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidQuery(
                f"{name}: {quoted(value)} is no value of a label: 1 to 63 letters, digits, . _ : / @ + -"
            )
    return given


async def label(request: web.Request) -> web.Response:
    """Sets the labels in the body, and deletes those that are null; answers with all labels of the machine."""
    Parameters(request, ())
    machine_id = await _machine(request)
    body = await fields(request, None)
    for name in body:
        _check_name(name, "labels")
    put = labels_of({name: value for name, value in body.items() if value is not None}, "labels")
    drop = [name for name, value in body.items() if value is None]
    return web.json_response({"labels": await request.app[MEMBERS].label(machine_id, put, drop)})


async def remove(request: web.Request) -> web.Response:
    """Ends the membership of a machine. It may join again, with a new token."""
    return await _end(request, Reason.REMOVED)


async def revoke(request: web.Request) -> web.Response:
    """Ends the membership of a machine. It may not join again before it was removed."""
    return await _end(request, Reason.REVOKED)


async def confirm(request: web.Request) -> web.Response:
    """Accepts a machine that is known only by its certificate."""
    Parameters(request, ())
    await fields(request, ())
    machine_id = await _machine(request)
    if not await request.app[MEMBERS].confirm(machine_id):
        raise UnknownThing(f"node: {machine_id} needs no confirmation")
    return web.json_response({"machine_id": machine_id})


async def _end(request: web.Request, how: Reason) -> web.Response:
    Parameters(request, ())
    await fields(request, ())
    machine_id = await _machine(request)
    if not await request.app[REGISTER].end(machine_id, how):
        raise UnknownThing(f"node: {machine_id} has not joined, or was {how} before")
    return web.json_response({"machine_id": machine_id})


async def _machine(request: web.Request) -> str:
    node = text(request.match_info["node"], "node")
    found = await request.app[MEMBERS].find(node)
    if not found:
        raise UnknownThing(f"node: {await no_machine(request, node)}")
    if len(found) > 1:
        raise InvalidQuery(f"node: several machines have the hostname {quoted(node)}; give the machine's id")
    return found[0]


def _check_name(key: str, name: str) -> None:
    if not _NAME.fullmatch(key):
        raise InvalidQuery(
            f"{name}: {quoted(key)} is no name of a label: up to 63 letters, digits, . _ / -, a letter or digit first "
            "and last"
        )


ROUTES = [
    web.post("/api/v1/nodes/{node}/labels", label),
    web.post("/api/v1/nodes/{node}/remove", remove),
    web.post("/api/v1/nodes/{node}/revoke", revoke),
    web.post("/api/v1/nodes/{node}/confirm", confirm),
]
