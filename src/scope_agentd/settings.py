"""The agent's settings."""

from dataclasses import dataclass
from pathlib import Path

from scope_agentd.errors import InvalidSettings
from scope_wire.addresses import loopback_address
from scope_wire.errors import InvalidAddress

LEAST_SPOOL_BYTES = 16 << 20  # eight segments, each of two records of maximum size


@dataclass(frozen=True)
class Settings:
    """The agent's addresses, files and limits.

    Attributes:
        state_dir: directory for data that outlives the agent; made if it is missing.
        token_file: file with the bearer token, which the agent requires from clients and sends to the server.
        server: host:port of the server's session service.
        control: host:port of the agent's own service; port 0: any free port.
        metrics: host:port of /metrics; port 0: any free port.
        spool_bytes: maximum size of records on disk while the server is slow or away; beyond, the oldest are dropped
            and counted.
        excluded_pids: processes that no task records, with all their descendants.
        stop_deadline_s: how long a stop waits for the server to take the spooled records; the rest stays in the spool.
    """

    state_dir: Path
    token_file: Path
    server: str = "127.0.0.1:8471"
    control: str = "127.0.0.1:8472"
    metrics: str = "127.0.0.1:8473"
    spool_bytes: int = 1 << 30
    excluded_pids: tuple[int, ...] = ()
    stop_deadline_s: float = 5.0

    def __post_init__(self) -> None:
        for name in ("server", "control", "metrics"):
            try:
                loopback_address(getattr(self, name), name)
            except InvalidAddress as error:
                raise InvalidSettings(str(error)) from None
        if self.spool_bytes < LEAST_SPOOL_BYTES:
            raise InvalidSettings(f"spool_bytes: {self.spool_bytes} is too small; give 16 MiB or more")
