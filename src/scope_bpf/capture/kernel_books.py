"""The map in which programs keep the books of their streams, also when whoever loaded them has gone.

Pinned in a BPF file system, the map outlives a killed process: its successor reads there what was emitted.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scope_bpf.binding.map import open_pinned, read_per_cpu, value_size_of
from scope_bpf.capture.account import Account
from scope_bpf.errors import KernelError

LOSS_REASONS = ("ring_full", "no_state", "map_full", "follow")  # enum scope_loss in emit.bpf.h

_ACCOUNT = np.dtype(  # struct scope_account in emit.bpf.h
    [("emitted", "<u8"), ("lost", "<u8", len(LOSS_REASONS)), ("incomplete", "<u8")]
)


def read_account(fd: int, number: int) -> Account:
    """The books of one stream, by its number, from the descriptor of a `scope_accounts` map.

    Raises:
        KernelError: the map has no such stream.
    """
    per_cpu = read_per_cpu(fd, number, _ACCOUNT)
    lost = dict(zip(LOSS_REASONS, per_cpu["lost"].sum(axis=0).tolist(), strict=True))
    return Account(
        int(per_cpu["emitted"].sum()),
        {reason: count for reason, count in lost.items() if count},
        int(per_cpu["incomplete"].sum()),
    )


def read_pinned(path: Path, streams: Sequence[str]) -> dict[str, Account]:
    """The books behind a pin, by stream; `streams` are in the order of their numbers.

    Raises:
        KernelError: nothing is pinned there, or a map of another build.
    """
    fd = open_pinned(path)
    try:
        if value_size_of(fd) != _ACCOUNT.itemsize:
            raise KernelError(f"the books pinned at {path} are those of another build", 22)
        return {name: read_account(fd, number) for number, name in enumerate(streams)}
    finally:
        os.close(fd)
