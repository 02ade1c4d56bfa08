"""The kernel's own trace of an event, to compare with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTANCES = Path("/sys/kernel/tracing/instances")


@contextmanager
def seen(event: str) -> Iterator[list[str]]:
    """Collects a line for each `event` ("irq/softirq_entry") of the machine until the end of the block.

    Hosts of virtual machines may have kernels that run no BPF program while their own agent, which is init, is
    interrupted. What interrupts init is left out.
    """
    instance = INSTANCES / "scope_test"
    instance.mkdir()
    lines: list[str] = []
    try:
        (instance / "events" / event / "filter").write_text(
            " && ".join(f"common_pid != {task.name}" for task in Path("/proc/1/task").iterdir())
        )
        (instance / "events" / event / "enable").write_text("1")
        yield lines
        (instance / "events" / event / "enable").write_text("0")
        lines += (line for line in (instance / "trace").read_text().splitlines() if not line.startswith("#"))
    finally:
        instance.rmdir()
