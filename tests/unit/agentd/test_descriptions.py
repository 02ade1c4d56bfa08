"""Descriptions of streams are kept on disk beside the spool, or in memory if the disk cannot write."""

import resource
from pathlib import Path

from scope_agentd.pipeline.descriptions import Descriptions


def test_a_description_outlives_the_agent(tmp_path: Path) -> None:
    """What one agent kept, the next one reads, by stream and fingerprint; the first description of them stays."""
    Descriptions(tmp_path / "kept").keep("exec", "0123", b"one")
    after = Descriptions(tmp_path / "kept")
    assert (after.get("exec", "0123"), after.get("exec", "4567"), after.get("exit", "0123")) == (b"one", None, None)
    after.keep("exec", "4567", b"two")
    after.keep("exec", "4567", b"three")
    assert Descriptions(tmp_path / "kept").get("exec", "4567") == b"two"
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700


def test_a_disk_that_cannot_write_is_no_error(tmp_path: Path) -> None:
    """A description that cannot be written is known to this agent; no part of it is left for the next one."""
    kept = Descriptions(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        kept.keep("exec", "0123", b"one")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kept.get("exec", "0123") == b"one"
    assert Descriptions(tmp_path).get("exec", "0123") is None


def test_all_are_forgotten(tmp_path: Path) -> None:
    """After `forget`, the folder is empty, also of a file that an agent had not finished; a missing folder is none."""
    kept = Descriptions(tmp_path / "kept")
    kept.forget()
    kept.keep("exec", "0123", b"one")
    (tmp_path / "kept" / "exit-0123.tmp").write_bytes(b"t")
    Descriptions(tmp_path / "kept").forget()
    assert list((tmp_path / "kept").iterdir()) == []
