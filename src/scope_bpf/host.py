"""What this host must have before any program can be loaded."""

import os
from pathlib import Path

from scope_bpf.errors import MissingCapability, NotSupported

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38}  # include/uapi/linux/capability.h
CAP_SYS_ADMIN = 21  # stands for both


def missing_capabilities() -> list[str]:
    """The capabilities that BPF needs and this process lacks, by name."""
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    if effective >> CAP_SYS_ADMIN & 1:
        return []
    return [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]


def require_bpf() -> None:
    """Checks what no probe can do without.

    Raises:
        MissingCapability: names the capabilities.
        NotSupported: the kernel has no BTF.
    """
    missing = missing_capabilities()
    if missing:
        raise MissingCapability(f"this process lacks {' and '.join(missing)}; run as root, or grant them")
    if not os.access(KERNEL_BTF, os.R_OK):
        raise NotSupported(f"{KERNEL_BTF} cannot be read: this kernel was built without CONFIG_DEBUG_INFO_BTF")
