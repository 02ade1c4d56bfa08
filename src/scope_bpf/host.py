"""Checks of this host: requirements of BPF, and optional features."""

import errno
import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scope_bpf import preemption
from scope_bpf.errors import MissingCapability, NotSupported

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
TRACEFS = Path("/sys/kernel/tracing")
CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38}  # include/uapi/linux/capability.h
CAP_SYS_ADMIN = 21  # includes both
CAP_NET_ADMIN = 12
CAP_SYSLOG, CAP_CHECKPOINT_RESTORE = 34, 40  # raised around their calls, so it is enough that they are permitted
READING = {  # what is not known without each, about processes of other users
    "CAP_SYS_PTRACE": (19, "their files and mappings"),
    "CAP_CHECKPOINT_RESTORE": (CAP_CHECKPOINT_RESTORE, "the files that they map"),
    "CAP_DAC_READ_SEARCH": (2, "files that only they may read"),
    "CAP_SYSLOG": (CAP_SYSLOG, "the kernel's functions in their stacks"),
}
_INCLUDED = {"CAP_CHECKPOINT_RESTORE": CAP_SYS_ADMIN, "CAP_DAC_READ_SEARCH": 1}  # CAP_DAC_OVERRIDE
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
_HOST_PIDS = "run in the host's pid namespace (docker run --pid=host; in Kubernetes hostPID: true)"


def missing_capabilities() -> list[str]:
    """Names of the capabilities that BPF needs and this process lacks."""
    effective = _effective()
    if CAP_SYS_ADMIN in effective:
        return []
    return [name for name, bit in CAPABILITIES.items() if bit not in effective]


def may_see_packets() -> bool:
    """Whether this process has the capability for programs of cgroups, beside those that BPF needs."""
    return CAP_NET_ADMIN in _effective()


def unreadable() -> list[str]:
    """The capabilities to read processes that this process lacks, each with what is not known without it."""
    usable = _effective() | _capabilities("CapPrm:") & {CAP_SYSLOG, CAP_CHECKPOINT_RESTORE}
    return [
        f"{name}: {unknown}"
        for name, (bit, unknown) in READING.items()
        if bit not in usable and _INCLUDED.get(name) not in usable
    ]


def _effective() -> set[int]:
    return _capabilities("CapEff:")


def _capabilities(kind: str) -> set[int]:
    status = Path("/proc/self/status").read_text(errors="replace")
    bits = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(kind))
    return {bit for bit in range(64) if bits >> bit & 1}


def memory_bytes() -> int:
    """The memory that this process may use: the machine's, or less if a cgroup v2 around it has a limit."""
    least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    root = cgroup_root()
    told = Path("/proc/self/cgroup").read_text(errors="surrogateescape")
    own = next((line[3:] for line in told.splitlines() if line[:3] == "0::"), "")
    while root and own not in ("", "/"):
        with suppress(OSError, ValueError):  # there is no such controller, or no limit ("max")
            least = min(least, int((root / own.lstrip("/") / "memory.max").read_text()))
        own = own.rpartition("/")[0]
    return least


def cgroup_root() -> Path | None:
    """The mount point of cgroup v2; None: not mounted."""
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return Path(left.split()[4])
    return None


def has_host_pids() -> bool:
    """Whether this process is in the initial pid namespace, whose pids the kernel reports."""
    return Path("/proc/self/ns/pid").stat().st_ino == _INITIAL_PID_NAMESPACE


def _proc_is_own() -> bool:
    """Whether /proc belongs to this process's pid namespace. In another one, this process has several pids, or none."""
    try:
        status = Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return False
    pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(pids) <= 1


def require_host_pids() -> None:
    """Checks that /proc has the processes with the pids that the kernel reports.

    Raises:
        NotSupported: this process is in another pid namespace, where processes have other pids or none.
    """
    if not has_host_pids():
        raise NotSupported(f"processes have other pids in this pid namespace than on the host; {_HOST_PIDS}")


def require_bpf() -> None:
    """Checks the requirements of all probes.

    Raises:
        MissingCapability: capabilities are missing; the message names them.
        NotSupported: the kernel has no BTF, or /proc belongs to another pid namespace, where pids mean other processes.
    """
    missing = missing_capabilities()
    if missing:
        raise MissingCapability(f"this process lacks {' and '.join(missing)}; run as root, or grant these capabilities")
    if not os.access(KERNEL_BTF, os.R_OK):
        raise NotSupported(f"{KERNEL_BTF} cannot be read: this kernel was built without CONFIG_DEBUG_INFO_BTF")
    if not _proc_is_own():
        raise NotSupported("/proc belongs to another pid namespace; run mount -t proc proc /proc")


@dataclass(frozen=True)
class Feature:
    """A feature of the host. The reason says what it is for, or what is missing and what to do."""

    name: str
    available: bool
    reason: str


def features() -> list[Feature]:
    """The features that do not depend on a probe."""
    missing, unknown = missing_capabilities(), unreadable()
    mixed_up = preemption.mixed_up(os.uname().release, preemption.mode())
    return [
        _feature("capabilities", not missing, "BPF may be used", f"missing {' and '.join(missing)}; run as root"),
        _feature(
            "processes",
            not unknown,
            "all processes can be read",
            f"missing {'; '.join(unknown)} of other users' processes are not known; run as root",
        ),
        _feature(
            "kernel BTF",
            os.access(KERNEL_BTF, os.R_OK),
            "programs can adapt to this kernel",
            f"{KERNEL_BTF} cannot be read; boot a kernel built with CONFIG_DEBUG_INFO_BTF",
        ),
        _tracefs(),
        _feature(
            "cgroup v2",
            cgroup_root() is not None,
            "cgroups and containers can be targets",
            "not mounted; run mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        ),
        _feature(
            "pid namespace",
            has_host_pids(),
            "processes have their host pids here",
            f"private: rows have host pids, and probes that read processes in /proc cannot run; {_HOST_PIDS}",
        ),
        _feature("preemption", not mixed_up, "the values of a row are one thread's", mixed_up),
    ]


def _tracefs() -> Feature:
    try:
        mounted = (TRACEFS / "events").exists()
    except PermissionError:  # the kernel lets only root enter
        return Feature("tracefs", False, f"{TRACEFS} cannot be read; run as root")
    missing = f"not mounted; run mount -t tracefs tracefs {TRACEFS}"
    return _feature("tracefs", mounted, "classic tracepoints can be attached to", missing)


def _feature(name: str, available: bool, serves: str, missing: str) -> Feature:
    return Feature(name, available, serves if available else missing)


def raise_limit_of_descriptors() -> None:
    """Raises the limit as far as allowed: each attached file needs several descriptors, and the default limit is
    1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
