"""Where the wall time of a process went, as a sentence that a person would say."""

from collections.abc import Sequence
from dataclasses import dataclass

from scope_views.printable import printable
from scope_views.quantities import duration
from scope_views.why.shares import WORTH_TELLING, shares


@dataclass(frozen=True)
class Wall:
    """The wall time of threads, in ns; its parts add up to it, but for what nobody saw."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int


@dataclass(frozen=True)
class Call:
    """A call in which threads were blocked.

    Attributes:
        name: of the syscall; or `page fault`, `stopped` or `kernel`; None: unknown.
        file: for which it waited: a path, or what kind of file it is; None: for none.
    """

    name: str | None
    file: str | None
    blocked_ns: int


@dataclass(frozen=True)
class Lock:
    """Waits for a lock that other threads held.

    Attributes:
        address: in the process's memory, as text.
        holder: name of the thread that gave the lock up; None: unknown.
    """

    address: str
    holder: str | None
    waited_ns: int


def sentence(wall: Wall | None, calls: Sequence[Call] = (), locks: Sequence[Lock] = ()) -> str:
    """What happened, the largest part first; then the calls that made up most of the time blocked, and for which locks.

    Args:
        wall: None: nothing was recorded.
        calls: those with most time first.
        locks: likewise.
    """
    if wall is None or wall.total_ns <= 0:
        return "Nothing was recorded of where its time went."
    parts = (
        ("on a CPU", wall.on_cpu_ns),
        ("waiting for a CPU", wall.run_queue_ns),
        ("blocked", wall.blocked_ns),
    )
    told = shares(parts, wall.total_ns)
    said = f"Of {duration(wall.total_ns)} of its threads' time: {told or 'nothing known'}."
    blocked = [call for call in calls if call.name and call.blocked_ns >= WORTH_TELLING * max(1, wall.blocked_ns)]
    if wall.blocked_ns >= WORTH_TELLING * wall.total_ns and blocked:
        each = ", ".join(f"{call.blocked_ns / wall.blocked_ns:.0%} in {_named(call)}" for call in blocked[:3])
        said += f" Of the time blocked: {each}."
    waited = [lock for lock in locks if lock.waited_ns >= WORTH_TELLING * max(1, wall.blocked_ns)]
    if waited:
        said += f" It waited {', '.join(map(_waited, waited[:3]))}."
    return said


def _waited(lock: Lock) -> str:
    held = f" that {printable(lock.holder)} held" if lock.holder else ""
    return f"{duration(lock.waited_ns)} for the lock {printable(lock.address)}{held}"


def _named(call: Call) -> str:
    name = printable(call.name or "")
    return f"{name} of {printable(call.file)}" if call.file else name
