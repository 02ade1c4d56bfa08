"""The API as an aiohttp application."""

from aiohttp import web

from scope_server.api import (
    authority,
    certificates,
    events,
    health,
    members,
    metrics,
    nodes,
    openapi,
    quarantine,
    rollups,
    states,
    storage,
    tasks,
)
from scope_server.api.input import BODY_BYTES
from scope_server.api.problems import explain, require_token


def application(token: str) -> web.Application:
    """All resources; all but the authority's certificate need the token. The caller sets the keys in `context`."""
    made = web.Application(
        middlewares=[explain, require_token(token, but_not={authority.PATH})], client_max_size=BODY_BYTES
    )
    for resource in (
        authority,
        health,
        storage,
        nodes,
        members,
        certificates,
        tasks,
        events,
        rollups,
        states,
        quarantine,
        metrics,
        openapi,
    ):
        made.add_routes(resource.ROUTES)
    return made
