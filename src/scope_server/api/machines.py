"""Finds the machines that a request names."""

from aiohttp import web

from scope_server.api.context import DATABASE
from scope_server.api.input import quoted
from scope_server.errors import UnknownThing


async def machines_named(request: web.Request, machine: str | None) -> list[int] | None:
    """The keys of the machines with this hostname or id; None for all.

    Raises:
        UnknownThing: no machine has this hostname or id.
    """
    if machine is None:
        return None
    rows = await request.app[DATABASE].fetch("find_machines", {"node": machine})
    if not rows:
        raise UnknownThing(f"machine: no machine has the hostname or id {quoted(machine)}; /api/v1/nodes lists them")
    return [row["id"] for row in rows]
