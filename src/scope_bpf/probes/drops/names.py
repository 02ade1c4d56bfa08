"""The running kernel's names of reasons and functions."""

import functools
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.kernel_symbols import MARK, KernelSymbols
from scope_bpf.layout.btf import enum_of_kernel

_REASON, _SUBSYSTEM = "SKB_DROP_REASON_", "SKB_DROP_REASON_SUBSYS_"
_SUBSYSTEM_BITS = 16  # a reason's upper half, include/net/dropreason.h

_kernel, _lock = KernelSymbols(), threading.Lock()


@functools.cache
def _reasons() -> dict[int, str]:
    return {number: name.removeprefix(_REASON) for name, number in enum_of_kernel("skb_drop_reason").items()}


@functools.cache
def _subsystems() -> dict[int, str]:
    return {number: name.removeprefix(_SUBSYSTEM) for name, number in enum_of_kernel("skb_drop_reason_subsys").items()}


def reason(number: int) -> str | None:
    """The kernel's name of a reason. A module's own reasons are in no list of the kernel: the module's name and the
    number. None: the kernel tells no reasons."""
    if not number:
        return None
    if name := _reasons().get(number):
        return name
    subsystem, number_there = number >> _SUBSYSTEM_BITS, number & ((1 << _SUBSYSTEM_BITS) - 1)
    return f"{_subsystems().get(subsystem, subsystem)}_{number_there}" if subsystem else str(number)


def reasons(numbers: Rows) -> pa.DictionaryArray:
    """The names of reasons, see `reason`; shape (rows,)."""
    present, places = np.unique(numbers, return_inverse=True)
    return _texts([reason(int(number)) for number in present], places)


def functions(addresses: Rows) -> pa.DictionaryArray:
    """The names of the functions that return addresses are in; shape (rows,), uint64."""
    present, places = np.unique(addresses, return_inverse=True)
    with _lock:
        names = _kernel.names(present)
    return _texts([name.removesuffix(MARK) for name in names], places)


def _texts(distinct: Sequence[str | None], places: Rows) -> pa.DictionaryArray:
    return pa.array(distinct, pa.string()).take(pa.array(places.astype(np.int32))).dictionary_encode()
