"""The vDSO has functions with names, and says how to unwind them."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scope_bpf.code.function_starts import FunctionStarts
from scope_bpf.code.mappings import VDSO, Mapping, executable_mappings
from scope_bpf.code.vdso import vdso_at


@pytest.fixture
def own() -> Mapping:
    return next(one for one in executable_mappings("self") if one.path == VDSO)


def test_names_are_those_of_the_image(own: Mapping, tmp_path: Path) -> None:
    """As nm reads it from this process's memory. Each function has both its name and one that only the vDSO has."""
    image = tmp_path / "vdso"
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(own.start)
        image.write_bytes(memory.read(own.end - own.start))
    listed = subprocess.run(["nm", "-D", image], capture_output=True, text=True, check=True).stdout
    symbols = {words[2].partition("@")[0]: int(words[0], 16) for words in map(str.split, listed.splitlines())}
    vdso = vdso_at(own)
    assert vdso
    starts = FunctionStarts(vdso.elf)
    named = {name: address for name, address in symbols.items() if name.startswith(("__vdso_", "__kernel_"))}
    assert len(named) >= 3
    for name, address in named.items():
        assert vdso.name_at(address + 5) == name
        assert starts.start_of(address + 5) == address


def test_another_vdso_is_not_named_by_ours(own: Mapping) -> None:
    """That of 32-bit programs, or after a restore from another machine."""
    low = replace(own, start=own.start & 0xFFFFFFF, end=(own.start & 0xFFFFFFF) + own.end - own.start)
    longer, file = replace(own, end=own.end + 4096), replace(own, path="/tmp/[vdso]")
    assert [vdso_at(other) for other in (low, longer, file)] == [None] * 3
