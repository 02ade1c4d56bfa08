"""What an agent can be told."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from scope_agentd.errors import InvalidSettings


@dataclass(frozen=True)
class Settings:
    """Where the agent listens, whom it sends to, and its limits.

    Attributes:
        state_dir: what has to outlast a run.
        token_file: the bearer token that it asks for and shows.
        server: host:port of the server's ingest service.
        control: host:port of the agent's own service; port 0 takes a free one.
        metrics: host:port of /metrics; port 0 takes a free one.
        queue_bytes: batches held while the server is slow or gone; beyond, the oldest are dropped and counted.
        excluded_pids: processes that no task records, with all that they have started.
        stop_deadline_s: how long a stop waits for acknowledgements.
    """

    state_dir: Path
    token_file: Path
    server: str = "127.0.0.1:8471"
    control: str = "127.0.0.1:8472"
    metrics: str = "127.0.0.1:8473"
    queue_bytes: int = 64 << 20
    excluded_pids: tuple[int, ...] = ()
    stop_deadline_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("server", "control", "metrics"):
            _check_loopback(getattr(self, name), name)
        if self.queue_bytes < 1 << 20:
            raise InvalidSettings(f"queue_bytes: {self.queue_bytes} is too small; give it 1 MiB or more")


def _check_loopback(address: str, name: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidSettings(f"{name}: {address!r} is not host:port, such as 127.0.0.1:8472")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise InvalidSettings(f"{name}: {host!r} is not a loopback address; use 127.0.0.1, [::1] or localhost")
