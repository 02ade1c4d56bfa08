"""GET /nodes: the machines; GET /probes: what they can record."""

from datetime import datetime
from typing import Any

from aiohttp import web
from google.protobuf import json_format

from scope_server.api.context import AGENTS, DATABASE
from scope_server.errors import AgentUnavailable, InvalidQuery, UnknownThing


async def get_nodes(request: web.Request) -> web.Response:
    """Every machine that was ever seen, and whether its agent is connected."""
    connected = request.app[AGENTS].machine_ids
    rows = await request.app[DATABASE].fetch("machines")
    nodes = [{**plain(row), "connected": row["machine_id"] in connected} for row in rows]
    return web.json_response({"nodes": nodes})


async def get_probes(request: web.Request) -> web.Response:
    """The catalogue of a machine's agent, with what its host allows."""
    agents = request.app[AGENTS]
    machine = await find_machine(request, request.query.get("node", ""))
    answer = await agents.probes(agents.of(machine))
    return web.json_response(json_format.MessageToDict(answer, preserving_proto_field_name=True))


async def find_machine(request: web.Request, node: str) -> str:
    """The machine id that a hostname or an id stands for; without either, the only machine that is connected.

    Raises:
        UnknownThing: no machine is called so.
        InvalidQuery: several are.
        AgentUnavailable: none was named and none is connected.
    """
    connected = request.app[AGENTS].machine_ids
    if not node:
        if len(connected) > 1:
            raise InvalidQuery("node: several machines are connected; name one")
        if not connected:
            raise AgentUnavailable("no agent is connected; is `scope agentd` running?")
        return next(iter(connected))
    rows = await request.app[DATABASE].fetch("find_machines", {"node": node})
    if not rows:
        raise UnknownThing(f"node: no machine has the hostname or id '{node}'; /api/v1/nodes lists them")
    if len(rows) > 1:
        raise InvalidQuery(f"node: several machines have the hostname '{node}'; give the machine's id")
    return str(rows[0]["machine_id"])


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times as text."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


ROUTES = [web.get("/api/v1/nodes", get_nodes), web.get("/api/v1/probes", get_probes)]
