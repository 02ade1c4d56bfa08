"""What a test left in the kernel, also while other tests load programs of their own: what no other process holds."""

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE_S = 120.0
Objects = set[tuple[str, int]]  # kind and id


def unheld() -> Objects:
    """Every BPF program and map that no other process than this one holds."""
    listed = {kind: subprocess.check_output(["bpftool", "-j", kind], text=True) for kind in ("prog", "map")}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)} - _held()


def left_behind(before: Objects) -> Objects:
    """Programs and maps, not in `before`, that stay without a holder.

    The kernel frees some a little later, and other tests leave some behind for a moment: these may go meanwhile.
    """
    end = time.monotonic() + _PATIENCE_S
    left = unheld() - before
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left &= unheld()
    return left


def _held() -> Objects:
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # the process or the descriptor has gone meanwhile
            if descriptor.parts[2] != str(os.getpid()) and str(descriptor.readlink()).startswith("anon_inode:bpf"):
                text = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text()
                found |= {(kind, int(number)) for kind, number in re.findall(r"(?m)^(prog|map)_id:\t(\d+)$", text)}
    return found
