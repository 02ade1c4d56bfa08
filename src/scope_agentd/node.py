"""The identity of this machine and of the agent's installation."""

import hashlib
import hmac
import os
import platform
import secrets
import socket
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from scope_proto.scope.v1 import control_pb2, session_pb2

MACHINE_ID = Path("/etc/machine-id")
_LIFE = secrets.token_bytes(16)
APPLICATION_KEY = b"scope.v1.machine"  # hashed with our own key, the id does not reveal the raw one, see machine-id(5)


def machine_id(state_dir: Path) -> str:
    """32 hexadecimal digits: HMAC-SHA256 of /etc/machine-id, or of a random id in `state_dir` if that file is
    missing."""
    try:
        raw = MACHINE_ID.read_text().strip()
    except OSError:
        raw = ""
    raw = raw or _kept(state_dir / "machine-id", lambda: secrets.token_hex(16))
    return hmac.new(APPLICATION_KEY, raw.encode(), hashlib.sha256).hexdigest()[:32]


def installation_id(state_dir: Path) -> str:
    """A UUID that lives as long as the state directory."""
    return _kept(state_dir / "installation-id", lambda: str(uuid.uuid4()))


def _kept(file: Path, make: Callable[[], str]) -> str:
    """The file's content. The file is made if it is missing, or empty after a power cut."""
    if file.exists() and (text := file.read_text().strip()):
        return text
    made, fresh = make(), file.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(made + "\n")
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    return made


def describe_node(state_dir: Path, machine: str) -> control_pb2.Node:
    """The message that describes this machine; `machine` is its id in the fleet."""
    node = control_pb2.Node(
        machine_id=machine,
        installation_id=installation_id(state_dir),
        hostname=socket.gethostname(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        agent_version=version("scope-observe"),
    )
    node.booted.FromNanoseconds(time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    return node


def hello(node: control_pb2.Node) -> session_pb2.Hello:
    """The first message of a stream, with the current times of both clocks, and what tells this process from others."""
    ktime_ns, utc_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
    return session_pb2.Hello(node=node, ktime_ns=ktime_ns, utc_ns=utc_ns, life=_LIFE, takes_where=True)
