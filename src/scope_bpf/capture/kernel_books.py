"""Reads the map in which programs count the events of their streams.

Pinned in a BPF file system, the map outlives a killed agent: the next agent reads the counts there.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from scope_bpf.binding.map import open_pinned, read_per_cpu, value_size_of
from scope_bpf.capture.account import Account
from scope_bpf.errors import KernelError
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values, record_dtype

_LOST = "SCOPE_LOST_"


def loss_reasons(btf: Btf) -> list[str]:
    """The reasons of losses in the kernel, in the order of their counters: `enum scope_loss` of an object."""
    return [name.removeprefix(_LOST).lower() for name in enum_values(btf, "scope_loss") if name.startswith(_LOST)]


def read_account(fd: int, number: int, btf: Btf) -> Account:
    """The counts of the stream with this number, from the descriptor of a `scope_accounts` map.

    Args:
        btf: types of the object that the map belongs to.

    Raises:
        KernelError: the map has no such stream.
    """
    per_cpu = read_per_cpu(fd, number, record_dtype(btf, "scope_account"))
    lost = dict(zip(loss_reasons(btf), per_cpu["lost"].sum(axis=0).tolist(), strict=True))
    return Account(
        int(per_cpu["emitted"].sum()),
        {reason: count for reason, count in lost.items() if count},
        int(per_cpu["incomplete"].sum()),
    )


def read_pinned(path: Path, streams: Sequence[str], btf: Btf) -> dict[str, Account]:
    """The counts in a pinned map, by stream; `streams` are in the order of their numbers.

    Args:
        btf: types of the object in this version; the map must be of the same build.

    Raises:
        KernelError: nothing is pinned at the path, or the map is of another build.
    """
    fd = open_pinned(path)
    try:
        if value_size_of(fd) != record_dtype(btf, "scope_account").itemsize:
            raise KernelError(f"the map pinned at {path} is of another build", 22)
        return {name: read_account(fd, number, btf) for number, name in enumerate(streams)}
    finally:
        os.close(fd)
