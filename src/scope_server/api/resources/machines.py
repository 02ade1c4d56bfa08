"""Finds the machines that a request names."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from scope_catalogue.nearest import meant
from scope_proto.scope.v1 import control_pb2
from scope_server.api.context import DATABASE, FLEET, SESSIONS
from scope_server.api.routing.call import Call
from scope_server.api.routing.input import quoted
from scope_server.errors import AgentUnavailable, Fault, InvalidQuery, UnknownThing
from scope_server.session.session import read_probes
from scope_server.signals import Topic

NODE = Fault("", parameter="node")
NODE_FIELD = Fault("", pointer="/node")


async def machines_named(call: Call, machine: str | None) -> list[int] | None:
    """The keys of the machines with this hostname or id; None for all.

    Raises:
        UnknownThing: no machine has this hostname or id.
    """
    if machine is None:
        return None
    rows = await call[DATABASE].fetch("find_machines", {"node": machine})
    if not rows:
        raise UnknownThing(await no_machine(call, machine), parameter="machine")
    return [row["id"] for row in rows]


async def find_machine(call: Call, node: str | None, at: Fault = NODE) -> tuple[int, str]:
    """Key and id of the machine with this hostname or id; without a name, of the only connected or known machine.

    Args:
        at: where the request names it.

    Raises:
        UnknownThing: no machine has this hostname or id.
        InvalidQuery: several machines match.
        AgentUnavailable: no machine was named and none is connected.
    """
    if not node:
        known = list(await call[FLEET].directory.connected())
        if len(known) > 1:
            detail = "several machines are connected; name one"
            raise InvalidQuery(f"node: {detail}", faults=[replace(at, detail=detail)])
        known = known or [row["machine_id"] for row in await call[DATABASE].fetch("machines")]
        if len(known) != 1:
            raise AgentUnavailable(f"no agent is connected; {await last_heard(call)}")
        node = known[0]
    rows = await call[DATABASE].fetch("find_machines", {"node": node})
    if not rows:
        detail = await no_machine(call, node)
        raise UnknownThing(f"node: {detail}", faults=[replace(at, detail=detail)])
    if len(rows) > 1:
        detail = f"several machines have the hostname {quoted(node)}; give the machine's id"
        raise InvalidQuery(f"node: {detail}", faults=[replace(at, detail=detail)])
    return rows[0]["id"], rows[0]["machine_id"]


@dataclass(frozen=True)
class Told:
    """What agents told of a machine's probes.

    Attributes:
        probes: None: no agent of the machine has told them yet.
        clock_ahead_ns: the machine's clock minus ours.
        current: whether the agent that is connected has told them; otherwise, an earlier one has.
    """

    probes: control_pb2.ListProbesResponse | None
    clock_ahead_ns: int
    current: bool


async def probes_told(call: Call, machine_id: str, *, connected: bool) -> Told:
    """The probes of a machine, as told last. A connected agent that has not told them is asked, whichever server holds
    its session."""
    if (session := call[SESSIONS].get(machine_id)) and (probes := session.probes()):
        return Told(probes, session.clock_ahead_ns, current=True)
    (row,) = await call[DATABASE].fetch("probes_of", {"machine_id": machine_id})
    current = connected and not session and row["probes_current"]
    if connected and not session and not current:
        call[FLEET].signals.tell(Topic.PROBES, [machine_id])
    told = None if row["probes"] is None else read_probes(row["probes"])
    return Told(told, row["clock_ahead_ns"], current)


async def last_heard(call: Call, machine_id: str = "") -> str:
    """When the agent of this machine, or of any, was last heard, and what that means."""
    rows = await call[DATABASE].fetch("machines")
    heard = [row for row in rows if machine_id in ("", row["machine_id"])]
    if not heard:
        return "is `scope agentd` running?"
    last = max(heard, key=lambda row: row["last_seen"])
    ago = (datetime.now(UTC) - last["last_seen"]).total_seconds()
    return (
        f"'{last['hostname']}' was last heard {max(ago, 0):.0f} s ago. If it is only busy, it connects again by "
        "itself; otherwise, is `scope agentd` running there?"
    )


async def no_machine(call: Call, name: str) -> str:
    """A message about a name that no machine has."""
    hostnames = [row["hostname"] for row in await call[DATABASE].fetch("machines")]
    return f"no machine has the hostname or id {quoted(name)}{meant(name, hostnames)}; /api/v1/nodes lists them"
