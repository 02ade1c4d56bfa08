"""The first message of a stream, checked: who calls."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from scope_proto.scope.v1.session_pb2 import Hello
from scope_server.errors import InvalidMessage

_TEXTS = {"hostname": 255, "kernel": 255, "architecture": 63, "agent_version": 63}  # the most characters of each
_MOST_CPUS = 1 << 20
_BIGINT = (1 << 63) - 1
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Caller:
    """Who calls, as the columns of `store.machines` name it.

    Attributes:
        boot_to_utc_ns: added to the machine's CLOCK_BOOTTIME it gives the server's time, as of the Hello; whole µs.
        clock_ahead_ns: the machine's clock less the server's.
    """

    machine_id: str
    installation: str
    hostname: str
    kernel: str
    architecture: str
    cpus: int
    memory_bytes: int
    agent_version: str
    booted: datetime | None
    boot_to_utc_ns: int
    clock_ahead_ns: int


def caller_of(hello: Hello) -> Caller:
    """Who says hello.

    Raises:
        InvalidMessage: a field is missing or no sane value.
    """
    node = hello.node
    if len(node.machine_id) != 32 or not _HEX.issuperset(node.machine_id):
        raise InvalidMessage("node.machine_id: 32 hexadecimal digits in lower case are wanted")
    for name, longest in _TEXTS.items():
        text = getattr(node, name)
        if len(text) > longest or "\0" in text:
            raise InvalidMessage(f"node.{name}: at most {longest} characters are wanted, no NUL among them")
    if node.cpus > _MOST_CPUS:
        raise InvalidMessage(f"node.cpus: {node.cpus} is above {_MOST_CPUS}")
    if node.memory_bytes > _BIGINT:
        raise InvalidMessage(f"node.memory_bytes: {node.memory_bytes} is above {_BIGINT}")
    if hello.ktime_ns > _BIGINT:
        raise InvalidMessage(f"ktime_ns: {hello.ktime_ns} is above {_BIGINT}")
    return Caller(
        machine_id=node.machine_id,
        installation=_installation(node.installation_id),
        hostname=node.hostname,
        kernel=node.kernel,
        architecture=node.architecture,
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        agent_version=node.agent_version,
        booted=moment(node.booted) if node.HasField("booted") else None,
        boot_to_utc_ns=(time.time_ns() - hello.ktime_ns) // 1000 * 1000,
        clock_ahead_ns=ahead(hello.utc_ns),
    )


def ahead(utc_ns: int) -> int:
    """How far a clock that shows `utc_ns` now is ahead of ours, in ns; no more than a bigint."""
    return max(-_BIGINT, min(_BIGINT, utc_ns - time.time_ns()))


def moment(stamp: Timestamp) -> datetime | None:
    """A message's time; None if it is none that can be kept."""
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
        raise InvalidMessage("node.installation_id: a UUID is wanted") from None
