"""The agent's settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from scope_agentd.errors import InvalidSettings
from scope_wire.bus.place import socket_path
from scope_wire.endpoint import Endpoint
from scope_wire.setting import Setting, above_zero, at_least, check_all, one_of

DEFAULTS, OPTIONS = "defaults", "options"  # what probes are tried with
LEAST_SPOOL_BYTES = 16 << 20  # eight segments, each of two records of maximum size


@dataclass(frozen=True)
class Settings:
    """The agent's addresses, files and limits.

    Raises:
        InvalidSettings: a value is not allowed.
    """

    state_dir: Annotated[
        Path, Setting("directory for data that outlives the agent; made if it is missing", check=socket_path)
    ]
    server: Annotated[
        str | None,
        Setting(
            "the server's session service",
            unit="HOST:PORT",
            unset="where the server said when this machine joined",
            example="scope.example.org:8471",
            check=Endpoint.parse,
        ),
    ] = None
    control: Annotated[
        str, Setting("the agent's own gRPC service listens here; port 0: any", unit="HOST:PORT", check=Endpoint.parse)
    ] = "127.0.0.1:8472"
    metrics: Annotated[
        str, Setting("Prometheus's /metrics listens here; port 0: any", unit="HOST:PORT", check=Endpoint.parse_loopback)
    ] = "127.0.0.1:8473"
    spool_bytes: Annotated[
        int,
        Setting(
            "disk space for records that wait for the server; beyond it the oldest are dropped and counted as lost",
            unit="bytes",
            check=at_least(LEAST_SPOOL_BYTES, "16M"),
        ),
    ] = 1 << 30
    task_bytes: Annotated[
        int | None,
        Setting(
            "memory in the kernel for the rings and maps of all tasks; a task that would need more is refused",
            unit="bytes",
            unset="a quarter of the machine's memory",
            example=1 << 30,
            check=above_zero,
        ),
    ] = None
    exclude_pid: Annotated[tuple[int, ...], Setting("processes that no task records, with all their descendants")] = ()
    examine_after_s: Annotated[
        float,
        Setting(
            "how long after its start the agent tries which probes can run here, unless somebody asks earlier",
            unit="s",
            check=at_least(0),
        ),
    ] = 60.0
    examine_with: Annotated[
        str,
        Setting(
            f"with what it tries each probe: its {DEFAULTS}, or also the {OPTIONS} that load other programs, as `scope "
            "doctor --options` does: twice the work, once after each start",
            unit="WHAT",
            example=OPTIONS,
            check=one_of(DEFAULTS, OPTIONS),
        ),
    ] = DEFAULTS
    stop_deadline_s: Annotated[
        float,
        Setting(
            "how long a stop waits for the server to take the spooled records; the rest stays in the spool",
            unit="s",
            check=above_zero,
        ),
    ] = 5.0

    def __post_init__(self) -> None:
        try:
            check_all(self)
        except ValueError as error:
            raise InvalidSettings(str(error)) from None
