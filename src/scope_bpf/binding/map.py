"""BPF maps: maps of a loaded object, which owns them, and other maps by file descriptor."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scope_bpf.binding.ffi import check, ffi, lib
from scope_bpf.errors import KernelError


def possible_cpus() -> int:
    """The number of values that a per-CPU map has for each key."""
    return check(lib.libbpf_num_possible_cpus(), "cannot count the CPUs")


def memory_of(fd: int) -> int:
    """The kernel's memory for a map."""
    described = Path(f"/proc/self/fdinfo/{fd}").read_text()
    return next(int(line.split()[1]) for line in described.splitlines() if line.startswith("memlock:"))


Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Map:
    """One map; keys and values are bytes."""

    def __init__(self, native: Any, name: str) -> None:
        self._map = native
        self.name = name

    @property
    def fd(self) -> int:
        """The file descriptor; valid once the object is loaded."""
        return int(lib.bpf_map__fd(self._map))

    @property
    def key_size(self) -> int:
        """Size of a key in bytes."""
        return int(lib.bpf_map__key_size(self._map))

    @property
    def value_size(self) -> int:
        """Size of a value in bytes."""
        return int(lib.bpf_map__value_size(self._map))

    @property
    def max_entries(self) -> int:
        """Maximum number of keys."""
        return int(lib.bpf_map__max_entries(self._map))

    def resize(self, entries: int) -> None:
        """Sets the maximum number of entries. Before the object is loaded."""
        check(lib.bpf_map__set_max_entries(self._map, entries), f"cannot resize the map '{self.name}'")

    def update(self, key: bytes, value: bytes) -> None:
        """Sets an entry.

        Raises:
            KernelError: the kernel refused, E2BIG if the map is full.
        """
        result = lib.bpf_map_update_elem(self.fd, ffi.from_buffer(key), ffi.from_buffer(value), lib.BPF_ANY)
        check(result, f"cannot update the map '{self.name}'")

    def fill(self, values: Sequence[int]) -> None:
        """Sets the first entries of an array, each of four bytes.

        For an array of maps, all entries are set in one step: the kernel then waits only once for running programs.

        Raises:
            KernelError: the kernel refused.
        """
        keys, count = np.arange(len(values), dtype=np.uint32), ffi.new("uint32_t *", len(values))
        filled = ffi.from_buffer(np.array(values, np.uint32))
        result = lib.bpf_map_update_batch(self.fd, ffi.from_buffer(keys), filled, count, ffi.NULL)
        check(result, f"cannot fill the map '{self.name}'")

    def lookup(self, key: bytes) -> bytes:
        """The value of a key.

        Raises:
            KernelError: the map has no such key (ENOENT).
        """
        value = ffi.new("char[]", self.value_size)
        result = lib.bpf_map_lookup_elem(self.fd, ffi.from_buffer(key), value)
        check(result, f"cannot read the map '{self.name}'")
        return bytes(ffi.buffer(value))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if the map has no such key."""
        try:
            return self.lookup(key)
        except KernelError:
            return None

    def delete(self, key: bytes) -> None:
        """Deletes an entry, if it exists."""
        lib.bpf_map_delete_elem(self.fd, ffi.from_buffer(key))

    def list_keys(self) -> list[bytes]:
        """All keys; keys that are added or deleted meanwhile may be missing."""
        found: list[bytes] = []
        previous, following = ffi.NULL, ffi.new("char[]", self.key_size)
        while lib.bpf_map_get_next_key(self.fd, previous, following) == 0:
            found.append(bytes(ffi.buffer(following)))
            previous = ffi.from_buffer(found[-1])
        return found

    def read_all(self) -> tuple[Bytes, Bytes]:
        """All keys and values as bytes, shapes (count, key size) and (count, value size).

        Raises:
            KernelError: the kernel refused.
        """
        keys = np.empty((self.max_entries, self.key_size), np.uint8)
        values = np.empty((self.max_entries, self.value_size), np.uint8)
        found = lib.scope_read_map(self.fd, ffi.from_buffer(keys), ffi.from_buffer(values), self.max_entries)
        count = check(found, f"cannot read the map '{self.name}'")
        return keys[:count], values[:count]

    def delete_all(self, keys: Bytes) -> None:
        """Deletes entries; shape (count, key size). Missing keys are ignored."""
        kept = np.ascontiguousarray(keys)
        lib.scope_delete_keys(self.fd, ffi.from_buffer(kept), self.key_size, len(kept))

    def pin(self, path: Path) -> None:
        """Pins the map, so that it outlives this process.

        Raises:
            KernelError: the path is not in a BPF file system, or exists.
        """
        check(lib.bpf_obj_pin(self.fd, os.fsencode(path)), f"cannot pin the map '{self.name}' at {path}")


def take_all(fd: int, key_size: int, value_size: int, entries: int) -> tuple[Bytes, Bytes]:
    """Takes all keys and values out of a map that no program uses any more; shapes as in `read_all`.

    Raises:
        KernelError: the kernel refused.
    """
    keys, values = np.empty((entries, key_size), np.uint8), np.empty((entries, value_size), np.uint8)
    taken = lib.scope_read_summary(fd, ffi.from_buffer(keys), ffi.from_buffer(values), entries)
    count = check(taken, "cannot read a map")
    return keys[:count], values[:count]


def fill_array(fd: int, values: np.ndarray[Any, np.dtype[Any]], first: int = 0) -> None:
    """Sets entries of an array.

    Args:
        values: shape (entries,); items have the size of the map's values.
        first: index of the first entry.

    Raises:
        KernelError: the kernel refused.
    """
    keys, count = np.arange(first, first + len(values), dtype=np.uint32), ffi.new("uint32_t *", len(values))
    filled = ffi.from_buffer(np.ascontiguousarray(values))
    check(lib.bpf_map_update_batch(fd, ffi.from_buffer(keys), filled, count, ffi.NULL), "cannot fill a map")


def read_per_cpu(fd: int, key: int, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """The values of one key of a per-CPU array, shape (possible CPUs,); `dtype` has the size of the map's values.

    Raises:
        KernelError: the map has no such key.
    """
    per_cpu = np.zeros(possible_cpus(), dtype)
    result = lib.bpf_map_lookup_elem(fd, ffi.from_buffer(key.to_bytes(4, "little")), ffi.from_buffer(per_cpu))
    check(result, "cannot read a per-CPU value")
    return per_cpu


def open_pinned(path: Path) -> int:
    """A descriptor of the object pinned at a path; the caller closes it.

    Raises:
        KernelError: nothing is pinned there.
    """
    return check(lib.bpf_obj_get(os.fsencode(path)), f"cannot open what is pinned at {path}")


def value_size_of(fd: int) -> int:
    """Size of a map's values in bytes.

    Raises:
        KernelError: the descriptor is not a map.
    """
    return check(lib.scope_map_value_size(fd), "cannot read a map's properties")
