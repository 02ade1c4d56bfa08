"""What a test left in the kernel, also while other tests load programs of their own: what no other process holds."""

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_PATIENCE_S = 120.0
_PINS = Path("/sys/fs/bpf/scope")  # has a folder for each installation
Objects = set[tuple[str, int]]  # kind and id


def unheld() -> Objects:
    """Every BPF program and map that no other process than this one holds.

    Leaves out pinned maps: the counts of a killed agent's runs wait there for its next life, see `pins_of`.
    """
    listed = {kind: _listed(kind) for kind in ("prog", "map")}
    held = _held()
    outer = [item["id"] for item in listed["map"] if item["type"].endswith("_of_maps") and ("map", item["id"]) in held]
    found = {(kind, item["id"]) for kind, items in listed.items() for item in items if not item.get("pinned")}
    return found - held - _within(outer)


def _listed(kind: str) -> list[dict[str, Any]]:
    """What bpftool lists; names of processes among it may be any bytes."""
    told = subprocess.check_output(["bpftool", "-f", "-j", kind], encoding="utf-8", errors="replace")
    listed: list[dict[str, Any]] = json.loads(told)
    return listed


def pins_of(installation: str) -> list[Path]:
    """The pinned counts of runs of an agent."""
    return list((_PINS / installation).glob("*"))


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


def _within(outer: list[int]) -> Objects:
    """The maps in these maps, which nobody else may hold."""
    found = set()
    for number in outer:
        told = subprocess.run(["bpftool", "-j", "map", "dump", "id", str(number)], capture_output=True)
        for entry in json.loads(told.stdout) if told.returncode == 0 else ():  # it has gone meanwhile
            if isinstance(entry.get("value"), list):
                found.add(("map", int.from_bytes(bytes(int(byte, 16) for byte in entry["value"]), "little")))
    return found


def _held() -> Objects:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            with suppress(OSError):  # the process has gone meanwhile
                for descriptor in (process / "fd").iterdir():
                    found |= _held_by(descriptor)
    return found


def _held_by(descriptor: Path) -> Objects:
    with suppress(OSError):  # it was closed meanwhile
        if str(descriptor.readlink()).startswith("anon_inode:bpf"):
            text = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text(errors="replace")  # has paths
            return {(kind, int(number)) for kind, number in re.findall(r"(?m)^(prog|map)_id:\t(\d+)$", text)}
    return set()
