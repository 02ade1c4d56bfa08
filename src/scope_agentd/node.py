"""What machine this is."""

import hashlib
import hmac
import os
import platform
import secrets
import socket
import time
from importlib.metadata import version
from pathlib import Path

from scope_proto.scope.v1 import control_pb2

MACHINE_ID = Path("/etc/machine-id")
APPLICATION_KEY = b"scope.v1.machine"  # an id under a key of its own does not tell the raw one, see machine-id(5)


def machine_id(state_dir: Path) -> str:
    """32 hexadecimal digits: HMAC-SHA256 of /etc/machine-id, or of a made-up id in `state_dir` where there is none."""
    try:
        raw = MACHINE_ID.read_text().strip()
    except OSError:
        raw = ""
    raw = raw or _made_up(state_dir / "machine-id")
    return hmac.new(APPLICATION_KEY, raw.encode(), hashlib.sha256).hexdigest()[:32]


def _made_up(file: Path) -> str:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        made = secrets.token_hex(16)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(made)
        return made


def describe_node(state_dir: Path) -> control_pb2.Node:
    """This machine as the contracts describe it."""
    node = control_pb2.Node(
        machine_id=machine_id(state_dir),
        hostname=socket.gethostname(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        agent_version=version("scope-observe"),
    )
    node.booted.FromNanoseconds(time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    return node
