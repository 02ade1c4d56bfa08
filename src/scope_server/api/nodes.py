"""GET /nodes: the machines; GET /probes: the probes of a machine."""

from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from google.protobuf import json_format

from scope_server.api.context import DATABASE, SESSIONS
from scope_server.api.input import Parameters, quoted
from scope_server.api.machines import no_machine
from scope_server.api.output import plain
from scope_server.errors import AgentUnavailable, InvalidQuery, UnknownThing
from scope_server.session.reported import ours
from scope_server.session.sessions import Sessions

_SPOOL = ("bytes", "limit_bytes", "records", "dropped_records", "deferred_records")


async def get_nodes(request: web.Request) -> web.Response:
    """All known machines, whether their agents are connected, and the size of their spools."""
    Parameters(request, ())
    sessions = request.app[SESSIONS]
    rows = await request.app[DATABASE].fetch("machines")
    return web.json_response({"nodes": [{**plain(row), **_live(sessions, row["machine_id"])} for row in rows]})


def _live(sessions: Sessions, machine_id: str) -> dict[str, Any]:
    session, conflict = sessions.get(machine_id), sessions.conflict(machine_id)
    spool = session.spool if session else None
    return {
        "connected": session is not None,
        "spool": {name: getattr(spool, name) for name in _SPOOL} if spool else None,
        "conflict": {"hostname": conflict.hostname, "time": conflict.time.isoformat()} if conflict else None,
    }


async def get_probes(request: web.Request) -> web.Response:
    """The probes of a machine's agent, with their availability on its host when the agent examined it."""
    _, machine_id = await find_machine(request, Parameters(request, ("node",)).text("node"))
    session = request.app[SESSIONS].get(machine_id)
    if session is None:
        raise AgentUnavailable(f"the agent of {machine_id} is not connected; {await _last_heard(request, machine_id)}")
    told = session.probes()
    if told is None:
        raise AgentUnavailable(f"the agent of {machine_id} has begun to try its probes; ask again in a minute")
    examined = ours(told, "examined", session.clock_ahead_ns)
    answer = json_format.MessageToDict(told, preserving_proto_field_name=True)
    return web.json_response({**answer, "examined": examined and examined.isoformat()})


async def find_machine(request: web.Request, node: str | None) -> tuple[int, str]:
    """Key and id of the machine with this hostname or id; without a name, of the only connected or known machine.

    Raises:
        UnknownThing: no machine has this hostname or id.
        InvalidQuery: several machines match.
        AgentUnavailable: no machine was named and none is connected.
    """
    if not node:
        connected = [session.machine for session in request.app[SESSIONS].all()]
        if len(connected) > 1:
            raise InvalidQuery("node: several machines are connected; name one")
        if connected:
            return connected[0].key, connected[0].machine_id
        known = [row["machine_id"] for row in await request.app[DATABASE].fetch("machines")]
        if len(known) != 1:
            raise AgentUnavailable(f"no agent is connected; {await _last_heard(request)}")
        node = known[0]
    rows = await request.app[DATABASE].fetch("find_machines", {"node": node})
    if not rows:
        raise UnknownThing(f"node: {await no_machine(request, node)}")
    if len(rows) > 1:
        raise InvalidQuery(f"node: several machines have the hostname {quoted(node)}; give the machine's id")
    return rows[0]["id"], rows[0]["machine_id"]


async def _last_heard(request: web.Request, machine_id: str = "") -> str:
    """When the agent of this machine, or of any, was last heard, and what that means."""
    rows = await request.app[DATABASE].fetch("machines")
    heard = [row for row in rows if machine_id in ("", row["machine_id"])]
    if not heard:
        return "is `scope agentd` running?"
    last = max(heard, key=lambda row: row["last_seen"])
    ago = (datetime.now(UTC) - last["last_seen"]).total_seconds()
    return (
        f"'{last['hostname']}' was last heard {max(ago, 0):.0f} s ago. If it is only busy, it connects again by "
        "itself; otherwise, is `scope agentd` running there?"
    )


ROUTES = [web.get("/api/v1/nodes", get_nodes), web.get("/api/v1/probes", get_probes)]
