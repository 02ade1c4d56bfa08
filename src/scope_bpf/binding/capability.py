"""Capabilities that a daemon has effective only around the calls that need them.

Capabilities belong to threads: a thread inherits the effective ones of the thread that starts it, and raising one
changes no other thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from scope_bpf.binding.ffi import check, lib
from scope_bpf.host import CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN, CAP_SYSLOG

SET_ASIDE = (CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE, CAP_SYSLOG)  # their calls use `raised`


def set_aside() -> None:
    """Takes the capabilities `SET_ASIDE` out of the effective ones of this thread and of all that it starts. They stay
    permitted.

    Raises:
        KernelError: the kernel refused.
    """
    for capability in SET_ASIDE:
        _set(capability, effective=False)


@contextmanager
def raised(capability: int) -> Iterator[None]:
    """While entered, a permitted capability is effective in this thread, which must start no other one then. Nothing
    changes where it is not permitted.

    Raises:
        KernelError: the kernel refused.
    """
    was = _set(capability, effective=True)
    try:
        yield
    finally:
        if not was:
            _set(capability, effective=False)


def _set(capability: int, *, effective: bool) -> int:
    return check(lib.scope_set_effective(capability, effective), f"cannot change capability {capability}")
