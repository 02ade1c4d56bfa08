"""The map in which programs keep the books of their streams, also when whoever loaded them has gone.

Pinned in a BPF file system, the map outlives a killed process: its successor reads there what was emitted.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scope_bpf._ffi import check, ffi, lib
from scope_bpf.account import Account
from scope_bpf.errors import KernelError
from scope_bpf.map import Map, possible_cpus

LOSS_REASONS = ("ring_full", "no_state", "map_full", "follow")  # enum scope_loss in emit.bpf.h

_ACCOUNT = np.dtype(  # struct scope_account in emit.bpf.h
    [("emitted", "<u8"), ("lost", "<u8", len(LOSS_REASONS)), ("incomplete", "<u8"), ("unsignalled", "<u8")]
)


def read_account(fd: int, number: int) -> Account:
    """The books of one stream, by its number, from the descriptor of a `scope_accounts` map.

    Raises:
        KernelError: the map has no such stream.
    """
    per_cpu = np.zeros(possible_cpus(), _ACCOUNT)
    key = number.to_bytes(4, "little")
    result = lib.bpf_map_lookup_elem(fd, ffi.from_buffer(key), ffi.from_buffer(per_cpu))
    check(result, "cannot read the books that the kernel keeps")
    lost = dict(zip(LOSS_REASONS, per_cpu["lost"].sum(axis=0).tolist(), strict=True))
    return Account(
        int(per_cpu["emitted"].sum()),
        {reason: count for reason, count in lost.items() if count},
        int(per_cpu["incomplete"].sum()),
    )


def pin(books: Map, path: Path) -> None:
    """Pins a loaded `scope_accounts` map.

    Raises:
        KernelError: the directory is in no BPF file system, or the path is taken.
    """
    check(lib.bpf_obj_pin(books.fd, os.fsencode(path)), f"cannot pin the books at {path}")


def read_pinned(path: Path, streams: Sequence[str]) -> dict[str, Account]:
    """The books behind a pin, by stream; `streams` are in the order of their numbers.

    Raises:
        KernelError: nothing is pinned there, or a map of another build.
    """
    fd = check(lib.bpf_obj_get(os.fsencode(path)), f"cannot open the books pinned at {path}")
    try:
        size = check(lib.scope_map_value_size(fd), f"cannot look at the map pinned at {path}")
        if size != _ACCOUNT.itemsize:
            raise KernelError(f"the books pinned at {path} are those of another build", 22)
        return {name: read_account(fd, number) for number, name in enumerate(streams)}
    finally:
        os.close(fd)
