"""A copy of a state directory in use starts as a new installation."""

import errno
import shutil
from pathlib import Path

import pytest

from scope_agentd import place
from scope_agentd.node import installation_id
from scope_agentd.place import Place


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that an agent uses."""
    directory = tmp_path / "state"
    for name in ("spool", "runs"):
        (directory / name).mkdir(parents=True)
        (directory / name / "any").touch()
    (directory / "tasks.json").write_text("[]")
    (directory / "agent.pem").write_text("key")
    installation_id(directory)
    Place(directory).claim()
    return directory


def entries(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def test_a_copy_does_not_claim_the_runs(state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a copy, runs, tasks, records and the installation's id are set aside, once; the log says where."""
    copy = shutil.copytree(state, tmp_path / "copy")
    Place(copy).claim()
    assert entries(copy) == {"agent.pem", "copied", "place"}
    assert entries(copy / "copied") == {"spool", "runs", "tasks.json", "installation-id"}
    assert (copy / "copied" / "spool" / "any").exists()
    assert str(copy / "copied") in [getattr(record, "set_aside", "") for record in caplog.records]
    assert installation_id(copy) != installation_id(state)
    caplog.clear()
    Place(copy).claim()  # after a kill
    assert not caplog.records


def test_the_same_directory_is_no_copy(state: Path) -> None:
    """The next agent in the directory, also renamed, goes on with what a killed one left."""
    moved = state.rename(state.with_name("moved"))
    Place(moved).claim()
    assert "copied" not in entries(moved)


def test_a_directory_at_rest_may_be_copied(state: Path, tmp_path: Path) -> None:
    """Where an agent has ended in order, a copy is taken as a move to another disk: nothing is set aside."""
    Place(state).release()
    copy = shutil.copytree(state, tmp_path / "copy")
    Place(copy).claim()
    assert "copied" not in entries(copy)


@pytest.mark.parametrize(("part", "copied"), [(1, False), (2, True)])
def test_after_a_restart_devices_may_differ(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, copied: bool
) -> None:
    """After a restart of the machine, another device number makes no copy; another inode does."""
    words = (state / "place").read_text().split()
    words[part] = "7"
    (state / "place").write_text(" ".join(words))
    monkeypatch.setattr(place, "_BOOT_ID", tmp_path / "boot_id")
    (tmp_path / "boot_id").write_text("another\n")
    Place(state).claim()
    assert ("copied" in entries(state)) == copied


@pytest.mark.parametrize(
    ("uuids", "copied"),
    [(("1A-B", "1A-C"), True), (("1A-B", "1A-B"), False), (("1A-B", ""), False), (("", "1A"), False)],
)
def test_a_cloned_disk(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uuids: tuple[str, str], copied: bool
) -> None:
    """A clone of the disk has the same inodes, but it is in another virtual machine; one that is not known decides
    nothing."""
    uuid, boot = tmp_path / "product_uuid", tmp_path / "boot_id"
    monkeypatch.setattr(place, "_MACHINE", uuid)
    uuid.write_text(uuids[0] + "\n")
    Place(state).claim()
    monkeypatch.setattr(place, "_BOOT_ID", boot)
    boot.write_text("another\n")
    uuid.write_text(uuids[1] + "\n")
    Place(state).claim()
    assert ("copied" in entries(state)) == copied


def test_a_full_disk_stops_no_agent(
    state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the note cannot be written, none is left behind, and the log says what follows from it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        Place(state).claim()
    assert "would not be noticed" in caplog.text
    assert not {"place", "place.new"} & entries(state)


@pytest.mark.parametrize("text", ["", "one two", "\0"])
def test_a_damaged_note_is_no_copy(state: Path, text: str) -> None:
    """A note that a power cut has damaged is replaced; nothing is set aside."""
    (state / "place").write_text(text)
    Place(state).claim()
    assert "copied" not in entries(state)
