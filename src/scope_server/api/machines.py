"""Finds the machines that a request names."""

from aiohttp import web

from scope_catalogue.nearest import meant
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
        raise UnknownThing(f"machine: {await no_machine(request, machine)}")
    return [row["id"] for row in rows]


async def no_machine(request: web.Request, name: str) -> str:
    """A message about a name that no machine has."""
    hostnames = [row["hostname"] for row in await request.app[DATABASE].fetch("machines")]
    return f"no machine has the hostname or id {quoted(name)}{meant(name, hostnames)}; /api/v1/nodes lists them"
