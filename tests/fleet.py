"""A fleet's certificates: what a server's authority signs for machines and persons. How its agents are set up."""

import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from scope_agentd.identity.membership import Fleet, keep, key_file
from scope_agentd.node import machine_id
from scope_server.identity import root as signing
from scope_server.identity.authority import Authority
from scope_wire.channel import open_channel
from scope_wire.endpoint import Endpoint
from scope_wire.identity import AGENT_NAME, SERVER_NAME, Identity, Kind, Role
from scope_wire.join_token import digest_of
from scope_wire.keys import Anonymous, Credentials, pem_of

UNEXAMINED_S = 1e6  # examine_after_s: an agent tries no probe unless it is asked to, which would cost every test
UNEXAMINED = ("--examine-after-s", str(UNEXAMINED_S))


def of_machine(authority: Authority, machine: str) -> Credentials:
    """A machine's credentials."""
    return authority.issue(Identity(Kind.MACHINE, machine))


def of_person(authority: Authority, role: Role = Role.OPERATOR, name: str = "tester") -> Credentials:
    """A person's credentials."""
    return authority.issue(Identity(Kind.OPERATOR, name, role))


@contextmanager
def signed_days_ago(monkeypatch: pytest.MonkeyPatch, days: int) -> Iterator[None]:
    """Certificates are signed as if it were so many days ago."""

    class Earlier(datetime):
        @classmethod
        def now(cls, zone: Any = None) -> Any:
            return datetime.now(zone) - days * timedelta(days=1)

    with monkeypatch.context() as changed:
        changed.setattr(signing, "datetime", Earlier)
        yield


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


def shake_hands(address: str, name: str, own: Credentials, version: str) -> str | None:
    """Connects with this version of TLS only; returns the version of the connection, None if there is none.

    Args:
        name: the DNS name of who listens there, in its certificate.
        version: as `ssl.TLSVersion` has it.
    """
    context = ssl.create_default_context(cadata="".join(pem_of(each).decode() for each in own.authorities))
    with tempfile.NamedTemporaryFile() as kept:
        own.write(Path(kept.name))
        context.load_cert_chain(kept.name)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port)), 20) as connection,
            context.wrap_socket(connection, server_hostname=name) as secured,
        ):
            return secured.version()
    except ssl.SSLError:
        return None
