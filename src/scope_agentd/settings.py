"""What an agent can be told."""

from dataclasses import dataclass
from pathlib import Path

from scope_agentd.errors import InvalidSettings
from scope_wire.addresses import loopback_address
from scope_wire.errors import InvalidAddress

LEAST_SPOOL_BYTES = 16 << 20  # eight segments of the largest records, twice


@dataclass(frozen=True)
class Settings:
    """Where the agent listens, whom it sends to, and its limits.

    Attributes:
        state_dir: what has to outlast a run of the agent; made if it is missing.
        token_file: the bearer token that it asks for and shows.
        server: host:port of the server's session service.
        control: host:port of the agent's own service; port 0 takes a free one.
        metrics: host:port of /metrics; port 0 takes a free one.
        spool_bytes: what waits on disk while the server is slow or gone; beyond, the oldest is dropped and counted.
        excluded_pids: processes that no task records, with all that they have started.
        stop_deadline_s: how long a stop waits for the server to take what waits; the rest stays in the spool.
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
            raise InvalidSettings(f"spool_bytes: {self.spool_bytes} is too small; give it 16 MiB or more")
