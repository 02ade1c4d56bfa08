"""Names of the kernel's functions."""

from pathlib import Path

import numpy as np
import pytest

from scope_bpf.code import kernel_symbols
from scope_bpf.code.kernel_symbols import KernelSymbols

TEXT = """\
ffffffff81000000 T _stext
ffffffff81000010 t do_one
ffffffff81000020 T do_two
ffffffff81000030 T _etext
ffffffffa0000000 t in_a_module\t[a]
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/proc/kallsyms and /proc/modules of a kernel with one module."""
    (tmp_path / "kallsyms").write_text(TEXT)
    (tmp_path / "modules").write_text("a 4096 0 - Live 0xffffffffa0000000\n")
    monkeypatch.setattr(kernel_symbols, "_KALLSYMS", tmp_path / "kallsyms")
    monkeypatch.setattr(kernel_symbols, "_MODULES", tmp_path / "modules")
    return tmp_path


def names(symbols: KernelSymbols, *addresses: int) -> list[str]:
    """Of return addresses: one byte behind what is looked up."""
    return symbols.names(np.array([address + 1 for address in addresses], np.uint64))


@pytest.mark.usefixtures("files")
def test_an_address_has_the_name_of_its_function() -> None:
    """Also in a module."""
    found = names(KernelSymbols(), 0xFFFFFFFF81000010, 0xFFFFFFFF8100001F, 0xFFFFFFFF81000020, 0xFFFFFFFFA0000FFF)
    assert found == ["do_one_[k]", "do_one_[k]", "do_two_[k]", "in_a_module_[k]"]


@pytest.mark.usefixtures("files")
def test_an_address_outside_of_all_functions_has_no_name() -> None:
    """Behind the kernel's code, behind a module, and before everything."""
    found = names(KernelSymbols(), 0xFFFFFFFF81000030, 0xFFFFFFFFA0001000, 0x1000)
    assert found == ["0xffffffff81000030_[k]", "0xffffffffa0001000_[k]", "0x1000_[k]"]


def test_functions_that_are_loaded_later_are_found(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was loaded after the first look; names that were found already stay."""
    symbols = KernelSymbols()
    assert names(symbols, 0xFFFFFFFFA0000000) == ["in_a_module_[k]"]
    (files / "kallsyms").write_text(f"{TEXT}ffffffffa0002000 t in_another\t[b]\n")
    monkeypatch.setattr(kernel_symbols, "_AGED_S", 0)
    assert names(symbols, 0xFFFFFFFFA0002004, 0xFFFFFFFFA0000000) == ["in_another_[k]", "in_a_module_[k]"]


def test_the_running_kernel() -> None:
    """As it tells root; others see no addresses."""
    listed = [line.split()[:3] for line in Path("/proc/kallsyms").read_text().splitlines()]
    (address,) = [int(address, 16) for address, kind, name in listed if kind in "tT" and name == "vfs_read"]
    assert names(KernelSymbols(), address) == ["vfs_read_[k]" if address else "0x0_[k]"]
