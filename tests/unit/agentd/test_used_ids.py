"""Ids are remembered in a file that stays small."""

from pathlib import Path

import pytest

from scope_agentd import used_ids
from scope_agentd.errors import TaskConflict
from scope_agentd.used_ids import UsedIds


def test_ids_outlast_the_agent(tmp_path: Path) -> None:
    """What one run used, the next one refuses; what it did not use, it takes."""
    file = tmp_path / "task-ids"
    UsedIds(file).add("one")
    later = UsedIds(file)
    with pytest.raises(TaskConflict, match="'one' ran before"):
        later.add("one")
    later.add("two")
    assert file.read_text() == "one\ntwo\n"


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is cut to the newest when an agent starts."""
    monkeypatch.setattr(used_ids, "KEPT", 3)
    file = tmp_path / "task-ids"
    file.write_text("".join(f"{n}\n" for n in range(5)))
    UsedIds(file)
    assert file.read_text() == "2\n3\n4\n"
