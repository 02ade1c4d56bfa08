"""Features of BPF that probes use and older kernels lack. Each is tried: distributions add some to older kernels."""

from collections.abc import Callable
from dataclasses import dataclass

from scope_bpf.binding.ffi import ffi, lib

# include/uapi/linux/bpf.h
_KPROBE = 2
_TASK_STORAGE_GET = 156
_GET_ATTACH_COOKIE = 174
_LOOP = 181


@dataclass(frozen=True)
class Feature:
    """A feature, the version of Linux that has it first, and whether this kernel has it."""

    name: str
    since: str
    is_there: Callable[[], bool]


FEATURES = (
    Feature("atomic operations with a result", "5.12, on arm64 5.18", lambda: bool(lib.scope_has_atomics())),
    # Since 5.11, but at first for programs of LSM alone.
    Feature("storage for each thread", "5.13", lambda: _has_helper(_TASK_STORAGE_GET)),
    Feature("cookies of attach points", "5.15", lambda: _has_helper(_GET_ATTACH_COOKIE)),
    Feature("loops by bpf_loop()", "5.17", lambda: _has_helper(_LOOP)),
)


def lacking() -> list[str]:
    """What this kernel lacks, each with the version of Linux that has it first."""
    return [f"{one.name} (Linux {one.since})" for one in FEATURES if not one.is_there()]


def _has_helper(number: int) -> bool:
    return bool(lib.libbpf_probe_bpf_helper(_KPROBE, number, ffi.NULL) == 1)
