"""Which kernels may mix up the values of threads, and how that is known."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from scope_bpf import preemption


@pytest.mark.parametrize(
    ("release", "mode", "said"),
    [
        ("6.14.0-37-generic", "full", "rows of functions may have values of other threads; boot"),
        ("6.13.8-arch1-1", "lazy", "rows of functions may have values of other threads; boot"),
        ("6.13.8-arch1-1", "", "rows of functions may have values of other threads if it preempts fully; boot"),
        ("6.1.0-50-amd64", "full", "`dns` may name a query after another thread's; boot"),
        ("6.14.0-37-generic", "voluntary", ""),
        ("5.15.0-173-generic", "none", ""),
        ("6.15.0-rc1", "full", ""),
        ("7.2.13+deb14-amd64", "lazy", ""),
        ("10.0", "", ""),
    ],
)
def test_what_may_be_mixed_up(release: str, mode: str, said: str) -> None:
    """Kernels before 6.15 that preempt fully, or may, are named with what to do; others are not."""
    found = preemption.mixed_up(release, mode)
    assert found.startswith(said)
    assert bool(found) == bool(said)


CHOSEN, COMMAND_LINE, BUILT = "_CHOSEN", "_COMMAND_LINE", "_BUILT"


@pytest.mark.parametrize(
    ("version", "told", "mode"),
    [
        ("PREEMPT_DYNAMIC", {CHOSEN: "none voluntary (full) lazy \n", COMMAND_LINE: "preempt=none"}, "full"),
        ("PREEMPT_DYNAMIC", {COMMAND_LINE: "quiet preempt=none ro"}, "none"),
        ("PREEMPT_DYNAMIC", {COMMAND_LINE: "quiet", BUILT: "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT=y\n"}, "full"),
        ("PREEMPT_DYNAMIC", {BUILT: "# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_VOLUNTARY=y\n"}, "voluntary"),
        ("PREEMPT_DYNAMIC", {COMMAND_LINE: "quiet", BUILT: "CONFIG_PREEMPT_DYNAMIC=y\n"}, ""),
        ("PREEMPT_RT", {}, "full"),
        ("PREEMPT", {}, "full"),
        ("", {}, "voluntary"),
    ],
)
def test_how_the_mode_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, told: dict[str, str], mode: str
) -> None:
    """By the kernel's version; if it can be told at its start, by debugfs, the command line, or how it was built."""
    for name in (CHOSEN, COMMAND_LINE, BUILT):
        monkeypatch.setattr(preemption, name, tmp_path / name)
    for name, text in told.items():
        (tmp_path / name).write_text(text)
    kernel = SimpleNamespace(version=f"#1 SMP {version} Debian 6.12.117-1 (2026-11-05)")
    monkeypatch.setattr(os, "uname", lambda: kernel)
    assert preemption.mode() == mode
