"""The kernel's own trace of an event, to compare a probe's rows with."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTANCES = Path("/sys/kernel/tracing/instances")


@contextmanager
def seen(event: str, *, in_init: bool = False) -> Iterator[list[str]]:
    """Collects a line for each `event` ("irq/softirq_entry") on the machine until the end of the block.

    Events in init are left out, or are the only ones: on some virtual machines, init is the provider's agent, and the
    kernel runs no BPF program while init is interrupted.
    """
    instance = Path(tempfile.mkdtemp(prefix="scope_test", dir=INSTANCES))
    join, compare = ("||", "==") if in_init else ("&&", "!=")
    lines: list[str] = []
    try:
        (instance / "events" / event / "filter").write_text(
            f" {join} ".join(f"common_pid {compare} {task.name}" for task in Path("/proc/1/task").iterdir())
        )
        (instance / "events" / event / "enable").write_text("1")
        yield lines
        (instance / "events" / event / "enable").write_text("0")
        lines += (
            line for line in (instance / "trace").read_text(errors="replace").splitlines() if not line.startswith("#")
        )
    finally:
        instance.rmdir()
