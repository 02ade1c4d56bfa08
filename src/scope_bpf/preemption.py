"""Whether this kernel may preempt a program of a function, and what it then mixes up.

A program that takes its variables for its own may run a second time on its CPU meanwhile, for another thread. From 6.15
on, programs of functions prevent that, see bpf/include/program.bpf.h.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

_CHOSEN = Path("/sys/kernel/debug/sched/preempt")  # as in "none voluntary (full) lazy"
_COMMAND_LINE = Path("/proc/cmdline")
_BUILT = Path("/boot", f"config-{os.uname().release}")
_SHARED_STACKS_SINCE, _PREVENTED_SINCE = (6, 13), (6, 15)


def mode() -> str:
    """When this kernel preempts its own code: none, voluntary, full, lazy; empty: unknown.

    A kernel with PREEMPT_DYNAMIC tells it to root only, in debugfs. Elsewhere its command line or how it was built may.
    """
    words = os.uname().version.split()
    if "PREEMPT_DYNAMIC" not in words:
        return "full" if {"PREEMPT", "PREEMPT_RT"} & set(words) else "voluntary"
    for file, wanted in (
        (_CHOSEN, r"\((\w+)\)"),
        (_COMMAND_LINE, r"\bpreempt=(\w+)"),
        (_BUILT, r"(?m)^CONFIG_PREEMPT(?:_(NONE|VOLUNTARY|LAZY))?=y"),
    ):
        with suppress(OSError):
            if found := re.search(wanted, file.read_text(errors="replace")):
                return (found[1] or "full").lower()
    return ""


def mixed_up(release: str, mode: str) -> str:
    """What rows may have of other threads on such a kernel, and what to do about it; empty: nothing.

    Args:
        release: as uname -r tells it.
        mode: see `mode`.
    """
    version = tuple(map(int, re.findall(r"\d+", release)[:2]))
    if version >= _PREVENTED_SINCE or mode in ("none", "voluntary"):
        return ""
    what = "rows of functions may have values of other threads" if version >= _SHARED_STACKS_SINCE else ""
    what = what or "`dns` may name a query after another thread's"
    return f"{what}{'' if mode else ' if it preempts fully'}; boot with preempt=voluntary, or Linux 6.15 or later"
