"""How the number in a register is shown, by its type in signatures.py: as strace shows it."""

import os
import select
import socket
from collections.abc import Callable, Mapping

from scope_bpf.probes.syscalls import names
from scope_bpf.probes.syscalls.names import bits, numbered, of
from scope_catalogue.codes import SIGNALS

Text = Callable[[int], str]  # of the register's value, signed 64 bits


def one_of(known: Mapping[int, str], unknown: str) -> Text:
    """A number that has one name; another one is shown as hex, followed by what it might have been."""

    def text(value: int) -> str:
        value &= 0xFFFFFFFF
        return known.get(value) or f"{value:#x} /* {unknown} */"

    return text


def flags(
    known: Mapping[int, str], unknown: str, kinds: Mapping[int, str] | None = None, kind_bits: int = 0, none: str = "0"
) -> Text:
    """Flags that are set, in the order of `known`; before them, the one of `kinds` that `kind_bits` of them make."""

    def text(value: int) -> str:
        value &= 0xFFFFFFFF
        found = []
        if kinds:
            kind = value & kind_bits
            found.append(kinds.get(kind, f"{kind:#x} /* {unknown} */"))
            value &= ~kind_bits
        for mask, name in known.items():
            if mask and value & mask == mask:
                found.append(name)
                value &= ~mask
        if value:
            found.append(f"{value:#x}" if found else f"{value:#x} /* {unknown} */")
        return "|".join(found) or none

    return text


def signal_name(value: int) -> str:
    """SIGINT; of real-time signals as the kernel counts them: SIGRTMIN, SIGRT_1. Another number is itself."""
    value &= 0xFFFFFFFF
    return SIGNALS.get(value, str(_signed(value)))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


_CLONE = flags(names.CLONE, "CLONE_???")


def _clone_flags(value: int) -> str:
    ending, rest = value & 0x7F, value & 0xFFFFFFFF & ~0x7F
    named = [_CLONE(rest)] if rest else []
    return "|".join([*named, signal_name(ending)] if ending else named) or "0"


def _mode(value: int) -> str:
    return f"0{value & 0xFFFFFFFF:02o}"


def protocol(family: int) -> Text:
    """How a protocol of a family is shown."""
    if family in (socket.AF_INET, socket.AF_INET6):
        return one_of(names.PROTOCOLS, "IPPROTO_???")
    return lambda value: str(value & 0xFFFFFFFF)


def socket_option(level: int) -> Text:
    """How an option of a level is shown."""
    return (
        one_of(names.SOCKET_OPTIONS[level], "SO_???")
        if level in names.SOCKET_OPTIONS
        else lambda value: str(value & 0xFFFFFFFF)
    )


# How a register is shown, by the name that signatures.py gives its type.
TEXTS: Mapping[str, Text] = {
    "open_flags": flags(names.OPEN, "O_???", names.OPEN_KINDS, 3),
    "access": flags(of(os, "R_OK W_OK X_OK"), "?_OK", none="F_OK"),
    "mode": _mode,
    "at_flags": flags(names.AT, "AT_???"),
    "unlink_flags": flags({0x200: "AT_REMOVEDIR"}, "AT_???"),
    "access_flags": flags({0x200: "AT_EACCESS", **names.AT}, "AT_???"),
    "statx_flags": flags(names.AT, "AT_???", names.STATX_SYNC, 0x6000),
    "statx_mask": flags(names.STATX, "STATX_???"),
    "rename_flags": flags(bits("RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT"), "RENAME_???"),
    "protection": flags(bits("PROT_READ PROT_WRITE PROT_EXEC PROT_SEM"), "PROT_???", none="PROT_NONE"),
    "map_flags": flags(names.MAP, "MAP_???", names.MAP_KINDS, 0xF),
    "remap_flags": flags(bits("MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP"), "MREMAP_???"),
    "sync_flags": flags(bits("MS_ASYNC MS_INVALIDATE MS_SYNC"), "MS_???"),
    "advice": one_of(names.MADVICE, "MADV_???"),
    "file_advice": one_of(
        numbered(
            "POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED "
            "POSIX_FADV_NOREUSE"
        ),
        "POSIX_FADV_???",
    ),
    "whence": one_of(names.WHENCE, "SEEK_???"),
    "fd_flags": flags({1: "FD_CLOEXEC"}, "FD_???"),
    "pipe_flags": flags(names.CLOEXEC | names.NONBLOCK | of(os, "O_DIRECT"), "O_???"),
    "dup_flags": flags(names.CLOEXEC, "O_???"),
    "lock": flags(bits("LOCK_SH LOCK_EX LOCK_NB LOCK_UN"), "LOCK_???"),
    "fcntl_command": one_of(names.FCNTL, "F_???"),
    "ioctl_command": lambda value: names.IOCTLS.get(value & 0xFFFFFFFF, f"{value & 0xFFFFFFFF:#x}"),
    "prctl_command": one_of(names.PRCTL, "PR_???"),
    "arch_command": one_of(names.ARCH, "ARCH_???"),
    "futex_command": one_of(names.FUTEX, "FUTEX_???"),
    "clone_flags": _clone_flags,
    "unshare_flags": flags(names.CLONE, "CLONE_???"),
    "wait_flags": flags(
        {1: "WNOHANG", 2: "WSTOPPED", 4: "WEXITED", 8: "WCONTINUED", 0x1000000: "WNOWAIT", 0x80000000: "__WCLONE"},
        "W???",
    ),
    "wait4_flags": flags(
        {1: "WNOHANG", 2: "WSTOPPED", 8: "WCONTINUED", 0x40000000: "__WALL", 0x80000000: "__WCLONE"}, "W???"
    ),
    "id_kind": one_of(numbered("P_ALL P_PID P_PGID P_PIDFD"), "P_???"),
    "signal": signal_name,
    "mask_change": one_of(numbered("SIG_BLOCK SIG_UNBLOCK SIG_SETMASK"), "SIG_???"),
    "family": one_of(names.FAMILIES, "AF_???"),
    "socket_type": flags({0x80000: "SOCK_CLOEXEC", 0x800: "SOCK_NONBLOCK"}, "SOCK_???", names.SOCKET_KINDS, 0xF),
    "socket_flags": flags({0x80000: "SOCK_CLOEXEC", 0x800: "SOCK_NONBLOCK"}, "SOCK_???"),
    "message_flags": flags(names.MSG, "MSG_???"),
    "shutdown_how": one_of(numbered("SHUT_RD SHUT_WR SHUT_RDWR"), "SHUT_???"),
    "socket_level": one_of(names.LEVELS, "SOL_???"),
    "epoll_command": one_of(numbered("EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD", 1), "EPOLL_CTL_???"),
    "epoll_flags": flags(of(select, "EPOLL_CLOEXEC"), "EPOLL_???"),
    "event_flags": flags({1: "EFD_SEMAPHORE", 0x80000: "EFD_CLOEXEC", 0x800: "EFD_NONBLOCK"}, "EFD_???"),
    "signalfd_flags": flags({0x80000: "SFD_CLOEXEC", 0x800: "SFD_NONBLOCK"}, "SFD_???"),
    "timerfd_flags": flags({0x80000: "TFD_CLOEXEC", 0x800: "TFD_NONBLOCK"}, "TFD_???"),
    "inotify_flags": flags({0x80000: "IN_CLOEXEC", 0x800: "IN_NONBLOCK"}, "IN_???"),
    "memfd_flags": flags(bits("MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB MFD_NOEXEC_SEAL MFD_EXEC"), "MFD_???"),
    "random_flags": flags(bits("GRND_NONBLOCK GRND_RANDOM GRND_INSECURE"), "GRND_???"),
    "clock": one_of(names.CLOCKS, "CLOCK_???"),
    "timer_flags": flags({1: "TIMER_ABSTIME"}, "TIMER_???"),
    "limit": one_of(names.LIMITS, "RLIMIT_???"),
    "usage": one_of({0: "RUSAGE_SELF", 0xFFFFFFFF: "RUSAGE_CHILDREN", 1: "RUSAGE_THREAD"}, "RUSAGE_???"),
    "priority_kind": one_of(numbered("PRIO_PROCESS PRIO_PGRP PRIO_USER"), "PRIO_???"),
    "fallocate_flags": flags(
        bits(
            "FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_NO_HIDE_STALE FALLOC_FL_COLLAPSE_RANGE "
            "FALLOC_FL_ZERO_RANGE FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE"
        ),
        "FALLOC_FL_???",
    ),
    "xattr_flags": flags(bits("XATTR_CREATE XATTR_REPLACE"), "XATTR_???"),
    "futex_bits": lambda value: (
        "FUTEX_BITSET_MATCH_ANY" if value & 0xFFFFFFFF == 0xFFFFFFFF else f"{value & 0xFFFFFFFF:#x}"
    ),
    "persona": flags(names.PERSONALITY, "PER_???", {0: "PER_LINUX"}, 0xFF),
    "rseq_flags": flags({1: "RSEQ_FLAG_UNREGISTER"}, "RSEQ_???"),
}
