"""A map of a loaded object. The object owns it."""

from typing import Any

from scope_bpf._ffi import check, ffi, lib
from scope_bpf.errors import KernelError


def possible_cpus() -> int:
    """How many values a per-CPU map holds for each key."""
    return check(lib.libbpf_num_possible_cpus(), "cannot count the CPUs")


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
        """Bytes of a key."""
        return int(lib.bpf_map__key_size(self._map))

    @property
    def value_size(self) -> int:
        """Bytes of a value."""
        return int(lib.bpf_map__value_size(self._map))

    @property
    def max_entries(self) -> int:
        """How many keys fit."""
        return int(lib.bpf_map__max_entries(self._map))

    def resize(self, entries: int) -> None:
        """Sets how many entries it holds. Before the object is loaded."""
        check(lib.bpf_map__set_max_entries(self._map, entries), f"cannot resize the map '{self.name}'")

    def update(self, key: bytes, value: bytes) -> None:
        """Sets an entry.

        Raises:
            KernelError: the kernel refused, E2BIG if the map is full.
        """
        result = lib.bpf_map_update_elem(self.fd, ffi.from_buffer(key), ffi.from_buffer(value), lib.BPF_ANY)
        check(result, f"cannot update the map '{self.name}'")

    def lookup(self, key: bytes) -> bytes:
        """The value of a key.

        Raises:
            KernelError: there is none (ENOENT).
        """
        value = ffi.new("char[]", self.value_size)
        result = lib.bpf_map_lookup_elem(self.fd, ffi.from_buffer(key), value)
        check(result, f"cannot read the map '{self.name}'")
        return bytes(ffi.buffer(value))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if there is none."""
        try:
            return self.lookup(key)
        except KernelError:
            return None

    def delete(self, key: bytes) -> None:
        """Removes an entry, if it is there."""
        lib.bpf_map_delete_elem(self.fd, ffi.from_buffer(key))

    def list_keys(self) -> list[bytes]:
        """Every key; those that come or go meanwhile may be missing."""
        found: list[bytes] = []
        previous, following = ffi.NULL, ffi.new("char[]", self.key_size)
        while lib.bpf_map_get_next_key(self.fd, previous, following) == 0:
            found.append(bytes(ffi.buffer(following)))
            previous = ffi.from_buffer(found[-1])
        return found
