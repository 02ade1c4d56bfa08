"""The file of wanted tasks is read back as written; a damaged file is put aside; a failed write is repeated."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from scope_agentd.tasks import Tasks
from scope_agentd.wanted import Wanted, WantedFile
from scope_proto.scope.v1 import session_pb2, task_pb2

TASK = Wanted(
    "6f1c0d7e-0000-4000-8000-000000000001",
    task_pb2.ORIGIN_SERVER,
    task_pb2.Definition(probe="process", target=task_pb2.Target(pid=7)),
    deadline_ns=1_790_000_000_123_456_789,
    target_start=99,
    boot="a boot",
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """The file gives the written tasks back, to the nanosecond; before the first write no task is wanted."""
    file = WantedFile(tmp_path / "tasks.json")
    assert file.read() == []
    file.write([TASK])
    assert file.read() == [TASK]
    assert (tmp_path / "tasks.json").stat().st_mode & 0o777 == 0o600


def test_the_number_is_kept_for_its_server(tmp_path: Path) -> None:
    """The number of the server's last message is read back, unless the server has another authority."""
    path = tmp_path / "tasks.json"
    for authority, before, number in (("one", 0, 7), ("one", 7, 9), ("other", 0, 3)):
        file = WantedFile(path, authority)
        file.read()
        assert file.number == before
        file.number = number
        file.write([TASK])


def test_a_list_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """The file of version 0.1.0 has no number."""
    path = tmp_path / "tasks.json"
    file = WantedFile(path)
    file.write([TASK])
    path.write_text(json.dumps(json.loads(path.read_text())["tasks"]))
    assert (file.read(), file.number) == ([TASK], 0)


@pytest.mark.parametrize(
    "text",
    ["", "{}x", '[{"task_id": "x"}]', "[1]", "{}", '{"tasks": [], "number": "x"}', '[{"task_id":"","origin":"NO"}]'],
)
def test_a_damaged_file_is_put_aside(tmp_path: Path, text: str) -> None:
    """A damaged file is renamed and kept for people; the agent starts without tasks."""
    path = tmp_path / "tasks.json"
    path.write_text(text)
    assert WantedFile(path).read() == []
    assert path.with_suffix(".damaged").read_text() == text
    assert not path.exists()


def test_a_list_that_cannot_be_written_is_no_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failed write is logged, and raises no error."""
    WantedFile(tmp_path / "missing" / "tasks.json").write([TASK])
    assert "cannot write the file of wanted tasks" in caplog.text


async def test_what_could_not_be_written_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write is repeated: otherwise a restart of the agent would bring back a stopped task."""
    monkeypatch.setattr("scope_agentd.tasks._KEEP_AGAIN_S", 0.01)
    folder = tmp_path / "away"
    nothing: Any = None  # not used: no task is wanted
    tasks = Tasks(WantedFile(folder / "tasks.json"), lambda _: nothing)
    pursuing = asyncio.create_task(tasks.pursue())
    tasks.take_wish(session_pb2.Wanted(number=1))
    assert not folder.exists()
    folder.mkdir()
    async with asyncio.timeout(60):
        while not (folder / "tasks.json").exists():
            await asyncio.sleep(0.01)
    pursuing.cancel()
    await asyncio.gather(pursuing, return_exceptions=True)
