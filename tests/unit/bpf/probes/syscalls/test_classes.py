"""The classes of syscalls agree with the other tables of syscalls."""

import pytest

from scope_bpf.probes.syscalls import table
from scope_bpf.probes.syscalls.classes import CLASSES
from scope_bpf.probes.syscalls.signatures import CALLS

KNOWN = {*table.X86_64.values(), *table.ARM64.values(), *table.I386.values(), *table.ARM.values()}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_known_calls(name: str) -> None:
    """Every syscall of a class exists on x86-64 or arm64, or in their 32-bit tables."""
    assert CLASSES[name]
    assert CLASSES[name] <= KNOWN


@pytest.mark.parametrize(
    ("types", "classes"),
    [({"path", "path_at"}, {"%file"}), ({"fd", "dirfd", "pair"}, {"%desc", "%network"})],
    ids=["paths", "descriptors"],
)
def test_calls_with_paths_or_descriptors_are_in_a_class(types: set[str], classes: set[str]) -> None:
    """Every syscall with a decoded path is in %file, and every one with a decoded descriptor in %desc or %network."""
    taking = {
        name
        for name, call in CALLS.items()
        for signature in (call.plain, *call.by_command.values())
        if types & {*signature.arguments}
    }
    assert len(taking) > 30
    assert taking - set().union(*(CLASSES[name] for name in classes)) == set()
