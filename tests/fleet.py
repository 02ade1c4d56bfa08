"""A fleet's certificates: what a server's authority signs for machines and persons. How its agents are set up."""

from pathlib import Path
from typing import Any

import grpc

from scope_agentd.identity.membership import Fleet, keep, key_file
from scope_agentd.node import machine_id
from scope_server.identity.authority import Authority
from scope_wire.channel import open_channel
from scope_wire.endpoint import Endpoint
from scope_wire.identity import AGENT_NAME, SERVER_NAME, Identity, Kind, Role
from scope_wire.join_token import digest_of
from scope_wire.keys import Anonymous, Credentials

UNEXAMINED_S = 1e6  # examine_after_s: an agent tries no probe unless it is asked to, which would cost every test
UNEXAMINED = ("--examine-after-s", str(UNEXAMINED_S))


def of_machine(authority: Authority, machine: str) -> Credentials:
    """A machine's credentials."""
    return authority.issue(Identity(Kind.MACHINE, machine))


def of_person(authority: Authority, role: Role = Role.OPERATOR, name: str = "tester") -> Credentials:
    """A person's credentials."""
    return authority.issue(Identity(Kind.OPERATOR, name, role))


def make_member(state: Path, authority: Authority, server: str) -> None:
    """Makes the machine of an agent's state directory a member of a server at host:port, unless it is one."""
    if not key_file(state).exists():
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fleet = digest_of(authority.certificate).hex()
        keep(state, of_machine(authority, machine_id(state)), Fleet(fleet, "", (server,), ()))


def to_server(address: str, credentials: Credentials | Anonymous) -> grpc.aio.Channel:
    """A channel to a server's session service."""
    return open_channel(Endpoint.parse(address, "server").showing(lambda: credentials), SERVER_NAME)


def to_agent(address: str, credentials: Credentials | Anonymous) -> Any:
    """A channel to an agent."""
    return open_channel(Endpoint.parse(address, "agent").showing(lambda: credentials), AGENT_NAME)
