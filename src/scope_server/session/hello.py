"""Checks the Hello, the first message of a stream."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from scope_proto.scope.v1.session_pb2 import Hello
from scope_server.errors import InvalidMessage

_TEXTS = {"hostname": 255, "kernel": 255, "architecture": 63, "agent_version": 63}  # maximum characters of each
_LIFE_BYTES = 16
_ROOT_BYTES = 32
_MOST_ROOTS = 16
_MOST_ADDRESSES, _ADDRESS_CHARACTERS = 256, 261  # a name of 253 characters with brackets, colon and port
_MOST_CPUS = 1 << 20
_BIGINT = (1 << 63) - 1
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Caller:
    """The calling agent; fields as in the columns of `store.machines`.

    Attributes:
        life: random, of the agent's process; empty: the agent is older.
        boot_to_utc_ns: added to the machine's CLOCK_BOOTTIME, it gives the server's time, at the Hello; whole µs.
        clock_ahead_ns: the machine's clock minus the server's clock.
        takes_where: the agent applies the filters of tasks; an older one does not know them.
        roots: digests of the authorities that the agent trusts; empty: it does not say.
        servers, enrolments: host:port at which the agent looks for its servers; empty: it does not say.
    """

    machine_id: str
    installation: str
    life: bytes
    hostname: str
    kernel: str
    architecture: str
    cpus: int
    memory_bytes: int
    agent_version: str
    booted: datetime | None
    boot_to_utc_ns: int
    clock_ahead_ns: int
    takes_where: bool
    roots: frozenset[bytes]
    servers: tuple[str, ...]
    enrolments: tuple[str, ...]


def caller_of(hello: Hello) -> Caller:
    """The caller in a Hello.

    Raises:
        InvalidMessage: a field is missing or not valid.
    """
    node = hello.node
    if len(node.machine_id) != 32 or not _HEX.issuperset(node.machine_id):
        raise InvalidMessage("node.machine_id: must be 32 hexadecimal digits in lower case")
    for name, longest in _TEXTS.items():
        text = getattr(node, name)
        if len(text) > longest or "\0" in text:
            raise InvalidMessage(f"node.{name}: must have at most {longest} characters and no NUL")
    if node.cpus > _MOST_CPUS:
        raise InvalidMessage(f"node.cpus: {node.cpus} is above {_MOST_CPUS}")
    if node.memory_bytes > _BIGINT:
        raise InvalidMessage(f"node.memory_bytes: {node.memory_bytes} is above {_BIGINT}")
    if hello.ktime_ns > _BIGINT:
        raise InvalidMessage(f"ktime_ns: {hello.ktime_ns} is above {_BIGINT}")
    return Caller(
        machine_id=node.machine_id,
        installation=_installation(node.installation_id),
        life=hello.life[:_LIFE_BYTES],
        hostname=node.hostname,
        kernel=node.kernel,
        architecture=node.architecture,
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        agent_version=node.agent_version,
        booted=moment(node.booted) if node.HasField("booted") else None,
        boot_to_utc_ns=(time.time_ns() - hello.ktime_ns) // 1000 * 1000,
        clock_ahead_ns=ahead(hello.utc_ns),
        takes_where=hello.takes_where,
        roots=frozenset(root[:_ROOT_BYTES] for root in hello.roots[:_MOST_ROOTS]),
        servers=_addresses(hello.servers),
        enrolments=_addresses(hello.enrolments),
    )


def _addresses(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(text[:_ADDRESS_CHARACTERS] for text in given[:_MOST_ADDRESSES])


def ahead(utc_ns: int) -> int:
    """A clock's current time `utc_ns` minus our clock, in ns; limited to a bigint."""
    return max(-_BIGINT, min(_BIGINT, utc_ns - time.time_ns()))


def moment(stamp: Timestamp) -> datetime | None:
    """The time in a message; None if PostgreSQL cannot store it."""
    try:
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        return None


def _installation(text: str) -> str:
    try:
        if len(text) > 36:
            raise ValueError
        return str(UUID(text))
    except ValueError:
        raise InvalidMessage("node.installation_id: must be a UUID") from None
