"""docs/dataflow.md names only files that exist, and every place and reason where events can be lost."""

import re
from pathlib import Path

from scope_bpf.capture.kernel_books import loss_reasons
from scope_bpf.probes import probe_named

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "dataflow.md").read_text()


def test_the_files_exist() -> None:
    """Every file that the page names exists."""
    named = set(re.findall(r"`((?:bpf|src|tests|proto)/[^`]+)`", TEXT))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_loss_is_in_the_table() -> None:
    """Each place and reason of a loss, in the kernel or in the agent, is on the page."""
    for reason in (*loss_reasons(probe_named("syscalls").btf), "missed_run", "unkept", "file_unopened", "file_refused"):
        assert f"`ring/{reason}`" in TEXT
    for place in ("batch/unreadable", "agent/unread", "agent/killed", "agent/forgotten", "spool/full", "spool/damaged"):
        assert f"`{place}`" in TEXT
