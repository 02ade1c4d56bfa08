"""What this host must have before any program can be loaded, and what it may have beside."""

import errno
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from scope_bpf.errors import MissingCapability, NotSupported

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
TRACEFS = Path("/sys/kernel/tracing")
CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38}  # include/uapi/linux/capability.h
CAP_SYS_ADMIN = 21  # stands for both
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
_HOST_PIDS = "run in the host's pid namespace (docker run --pid=host; in Kubernetes hostPID: true)"


def missing_capabilities() -> list[str]:
    """The capabilities that BPF needs and this process lacks, by name."""
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    if effective >> CAP_SYS_ADMIN & 1:
        return []
    return [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]


def cgroup_root() -> Path | None:
    """Where the cgroup v2 hierarchy is mounted, None: nowhere."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return Path(left.split()[4])
    return None


def has_host_pids() -> bool:
    """Whether this process is in the initial pid namespace, by whose pids the kernel tells of processes."""
    return Path("/proc/self/ns/pid").stat().st_ino == _INITIAL_PID_NAMESPACE


def _proc_is_own() -> bool:
    """Whether /proc is of this process's pid namespace; another's names this process by more than one pid, or not."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(pids) <= 1


def require_host_pids() -> None:
    """Checks what is needed to look in /proc at the processes that the kernel tells of.

    Raises:
        NotSupported: this process is in a pid namespace of its own, where they have other pids or none.
    """
    if not has_host_pids():
        raise NotSupported(f"in this pid namespace processes have other pids than the kernel tells; {_HOST_PIDS}")


def require_bpf() -> None:
    """Checks what no probe can do without.

    Raises:
        MissingCapability: names the capabilities.
        NotSupported: the kernel has no BTF; /proc is another pid namespace's, where pids mean other processes.
    """
    missing = missing_capabilities()
    if missing:
        raise MissingCapability(f"this process lacks {' and '.join(missing)}; run as root, or grant them")
    if not os.access(KERNEL_BTF, os.R_OK):
        raise NotSupported(f"{KERNEL_BTF} cannot be read: this kernel was built without CONFIG_DEBUG_INFO_BTF")
    if not _proc_is_own():
        raise NotSupported("/proc is that of another pid namespace; mount -t proc proc /proc")


@dataclass(frozen=True)
class Feature:
    """Something the host has or lacks; the reason says what it serves, or what is missing and what to do."""

    name: str
    available: bool
    reason: str


def features() -> list[Feature]:
    """What depends on the host and not on a probe."""
    missing = missing_capabilities()
    return [
        _feature("capabilities", not missing, "BPF may be used", f"missing {' and '.join(missing)}; run as root"),
        _feature(
            "kernel BTF",
            os.access(KERNEL_BTF, os.R_OK),
            "programs adapt to this kernel",
            f"{KERNEL_BTF} cannot be read; boot a kernel built with CONFIG_DEBUG_INFO_BTF",
        ),
        _feature(
            "tracefs",
            (TRACEFS / "events").exists(),
            "classic tracepoints can be attached to",
            f"mount -t tracefs tracefs {TRACEFS}",
        ),
        _feature(
            "cgroup v2",
            cgroup_root() is not None,
            "cgroups and containers can be targets",
            "none is mounted; mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        ),
        _feature(
            "pid namespace",
            has_host_pids(),
            "processes have the pids here that the kernel tells",
            f"a private one: rows have the host's pids, probes that look at processes cannot run; {_HOST_PIDS}",
        ),
    ]


def _feature(name: str, available: bool, serves: str, missing: str) -> Feature:
    return Feature(name, available, serves if available else missing)


def raise_limit_of_descriptors() -> None:
    """As far as this process may: a file that is attached to takes several, and many processes start with 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
