"""What a server can be told."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from scope_server.errors import InvalidSettings


@dataclass(frozen=True)
class Settings:
    """Where the server listens, where it stores, and its limits.

    Attributes:
        database: a libpq connection string.
        token_file: holds the bearer token, mode 0600; made with a new token if it is missing.
        http: host:port of the REST API; port 0 takes a free one.
        ingest: host:port of the gRPC service that agents send to; port 0 takes a free one.
        writers: threads that write, each with its own connection.
        queue_bytes: compressed batches held before the server stops reading from agents.
        connections: at most so many connections for queries.
        database_wait_s: how long a start waits for the database.
        statement_timeout_s: how long a query of the API may take.
        stop_deadline_s: how long a stop waits for writes in flight.
    """

    database: str
    token_file: Path
    http: str = "127.0.0.1:8470"
    ingest: str = "127.0.0.1:8471"
    writers: int = 2
    queue_bytes: int = 32 << 20
    connections: int = 8
    database_wait_s: float = 60.0
    statement_timeout_s: float = 20.0
    stop_deadline_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("http", "ingest"):
            loopback_address(getattr(self, name), name)
        for name in ("writers", "queue_bytes", "connections", "statement_timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidSettings(f"{name}: {getattr(self, name)} is not above 0")


def loopback_address(text: str, name: str) -> tuple[str, int]:
    """Host and port of `text`, which stands for `name` in messages.

    Raises:
        InvalidSettings: it is not host:port, or the host is not a loopback address.
    """
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidSettings(f"{name}: {text!r} is not host:port, such as 127.0.0.1:8470")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise InvalidSettings(f"{name}: {host!r} is not a loopback address; use 127.0.0.1, ::1 or localhost")
    return host, int(port)
