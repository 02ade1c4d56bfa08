"""The machines, and the probes of a machine."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from google.protobuf import json_format
from google.protobuf.message import Message
from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, FLEET, SESSIONS
from scope_server.api.resources.machines import find_machine, last_heard, probes_told
from scope_server.api.resources.options_schema import OptionsSchema, options_schema
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Names, NodeName, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import AgentUnavailable
from scope_server.session.reported import ours
from scope_server.session.sessions import Sessions

ROUTES = Routes()


class Spool(Answer):
    """What waits on a machine to be sent."""

    bytes: int
    limit_bytes: int
    records: int
    dropped_records: int
    deferred_records: int = Field(description="records that the server could not store yet")


class Conflict(Answer):
    """An agent that was refused because another has its machine id."""

    hostname: str
    time: datetime


class Node(Answer):
    """A machine."""

    machine_id: str
    installation: str = Field(description="of the agent")
    hostname: str
    kernel: str
    architecture: str
    cpus: int
    memory_bytes: int
    agent_version: str
    booted: datetime | None
    clock_ahead_ns: int = Field(description="the machine's clock minus the server's")
    first_seen: datetime
    last_seen: datetime
    labels: Names
    membership: Literal["joined", "unconfirmed", "removed", "revoked"] | None
    joined: datetime | None
    expires: datetime | None = Field(description="when its certificate expires")
    connected: bool
    spool: Spool | None
    conflict: Conflict | None


class Nodes(Answer):
    """Machines."""

    nodes: list[Node]


class ProbesQuery(Parameters):
    """Whose probes."""

    node: NodeName | None = None


class ProbeColumn(Answer):
    """A column of a stream."""

    name: str
    type: str = Field(description="as Arrow names it")
    unit: str = Field(description="such as ns or bytes")
    meaning: str


class ProbeStream(Answer):
    """A stream of a probe."""

    name: str
    meaning: str
    mode: str
    columns: list[ProbeColumn]
    schema_fingerprint: str


class Trial(Answer):
    """An option with which a probe was tried, besides the default ones."""

    option: str = Field(description="NAME=VALUE")
    reason: str = Field(description="why the probe cannot run so; empty: it can")


class Probe(Answer):
    """A probe of an agent."""

    name: str
    meaning: str
    streams: list[ProbeStream]
    options: OptionsSchema
    available: bool
    attach_point: str = Field(description="the alternative that this host uses")
    reason: str = Field(description="why this alternative, or why none")
    no_device: bool = Field(description="the host has no device for it, so there is nothing to repair")
    unseen: list[str] = Field(description="what it cannot record there")
    tried: list[Trial] = Field(description="with other options, if the agent's setting examine_with is `options`")


class Feature(Answer):
    """A feature of a host, such as kernel BTF."""

    name: str
    available: bool
    reason: str = Field(description="what it is for, or what is missing and what to do")


class Probes(Answer):
    """What a machine can record, as its agent found it: the report of `scope doctor`."""

    probes: list[Probe]
    host: list[Feature] = Field(description="empty: the agent is too old to tell them")
    examined: datetime | None = Field(description="when the agent tried them")
    connected: bool = Field(description="whether the machine's agent is connected")
    current: bool = Field(description="whether the connected agent has told this; otherwise, an earlier one has")


@ROUTES.get(f"{PREFIX}/nodes", Role.VIEWER)
async def get_nodes(call: Call) -> Nodes:
    """All known machines, whether any server of the fleet has their agents, and the size of their spools."""
    connected = await call[FLEET].directory.connected()
    rows = await call[DATABASE].fetch("machines")
    return Nodes(nodes=[Node(**row | _live(call[SESSIONS], row, row["machine_id"] in connected)) for row in rows])


@ROUTES.get(f"{PREFIX}/probes", Role.VIEWER)
async def get_probes(call: Call, query: ProbesQuery) -> Probes:
    """What a machine can record, as its agent found last; also while the agent is away."""
    _, machine_id = await find_machine(call, query.node)
    connected = await call[FLEET].directory.holder(machine_id) is not None
    told = await probes_told(call, machine_id, connected=connected)
    named = query.node or machine_id
    if told.probes is None and connected:
        raise AgentUnavailable(f"the agent of {named} has begun to try its probes; ask again in a minute")
    if told.probes is None:
        raise AgentUnavailable(f"the agent of {named} is not connected; {await last_heard(call, machine_id)}")
    return Probes(
        probes=[Probe(**_fields(one) | {"options": options_schema(one.options)}) for one in told.probes.probes],
        host=[Feature(**_fields(one)) for one in told.probes.host],
        examined=ours(told.probes, "examined", told.clock_ahead_ns),
        connected=connected,
        current=told.current,
    )


def _fields(told: Message) -> dict[str, Any]:
    return json_format.MessageToDict(told, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _live(sessions: Sessions, row: Mapping[str, Any], connected: bool) -> dict[str, Any]:
    session, conflict = sessions.get(row["machine_id"]), sessions.conflict(row["machine_id"])
    told = row["spool"] if connected else None
    if session and session.spool:  # newer than what the database has
        told = {name: getattr(session.spool, name) for name in Spool.model_fields}
    return {
        "connected": connected,
        "spool": None if told is None else Spool(**dict.fromkeys(Spool.model_fields, 0) | told),
        "conflict": Conflict(hostname=conflict.hostname, time=conflict.time) if conflict else None,
    }
