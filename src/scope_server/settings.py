"""The server's settings."""

from dataclasses import dataclass
from pathlib import Path

from scope_server.errors import InvalidSettings
from scope_wire.addresses import loopback_address
from scope_wire.errors import InvalidAddress


@dataclass(frozen=True)
class Settings:
    """The server's addresses, database and limits.

    Attributes:
        database: a libpq connection string.
        token_file: file with the bearer token, mode 0600; made with a new token if it is missing.
        http: host:port of the REST API; port 0: any free port.
        ingest: host:port of the gRPC service for agents; port 0: any free port.
        writers: number of writer threads, each with its own connection.
        backlog_bytes: decompressed size of waiting records at which the server stops reading from agents.
        quarantine_bytes: maximum size of kept records that could not be stored.
        keep_days: older rows are deleted.
        keep_bytes: maximum size of stored data; beyond, the oldest days are deleted. None: 20 % of the database's disk,
            at most 20 GiB.
        free_floor: while fewer bytes are free on the database's disk, nothing is written. None: 512 MiB, or 2 % of the
            disk if that is more.
        connections: maximum number of connections for queries.
        sessions: maximum number of connected agents.
        statement_timeout_s: how long a query of the API may take.
        stop_deadline_s: how long a stop waits for running writes.
    """

    database: str
    token_file: Path
    http: str = "127.0.0.1:8470"
    ingest: str = "127.0.0.1:8471"
    writers: int = 2
    backlog_bytes: int = 256 << 20
    quarantine_bytes: int = 256 << 20
    keep_days: int = 30
    keep_bytes: int | None = None
    free_floor: int | None = None
    connections: int = 8
    sessions: int = 1000
    statement_timeout_s: float = 20.0
    stop_deadline_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("http", "ingest"):
            try:
                loopback_address(getattr(self, name), name)
            except InvalidAddress as error:
                raise InvalidSettings(str(error)) from None
        for name in ("writers", "backlog_bytes", "keep_days", "connections", "sessions", "statement_timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidSettings(f"{name}: {getattr(self, name)} is not above 0")
        if self.keep_bytes is not None and self.keep_bytes <= 0:
            raise InvalidSettings(f"keep_bytes: {self.keep_bytes} is not above 0")
