"""Ids of machines, installations and runs."""

import uuid
from pathlib import Path

import pytest

from scope_agentd import node
from scope_agentd.node import installation_id, machine_id
from scope_agentd.run_id import new_run_id


def test_the_raw_machine_id_is_never_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine id is the same each time, and is not part of the text of /etc/machine-id."""
    file = tmp_path / "machine-id-of-etc"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(node, "MACHINE_ID", file)
    assert machine_id(tmp_path) == machine_id(tmp_path)
    assert len(machine_id(tmp_path)) == 32
    assert machine_id(tmp_path) not in file.read_text()


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_an_installation_has_one_id(tmp_path: Path, left: str | None) -> None:
    """The id is kept in its directory; a file that a power cut left empty is replaced."""
    if left is not None:
        (tmp_path / "installation-id").write_text(left)
    first = installation_id(tmp_path)
    assert uuid.UUID(first)
    assert installation_id(tmp_path) == first
    (tmp_path / "other").mkdir()
    assert installation_id(tmp_path / "other") != first


def test_ids_of_runs_sort_by_time() -> None:
    """Run ids are UUIDs of version 7: they differ, and sort by time."""
    ids = [uuid.UUID(bytes=new_run_id()) for _ in range(100)]
    assert {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}
    assert len(set(ids)) == 100
    assert [one.int >> 80 for one in ids] == sorted(one.int >> 80 for one in ids)
