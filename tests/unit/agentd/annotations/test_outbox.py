"""Annotations that wait, in a file."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from scope_agentd.annotations import outbox as module
from scope_agentd.annotations.outbox import Outbox
from scope_agentd.errors import AnnotationRefused
from scope_proto.scope.v1 import session_pb2


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """An empty one."""
    with closing(Outbox(tmp_path / "annotations.sqlite")) as opened:
        yield opened


def said(number: int) -> session_pb2.Annotation:
    return session_pb2.Annotation(
        id=bytes([number]) * 16, utc_ns=number, text=f"step {number}", labels={"epoch": "3"}, pid=7, comm="train"
    )


def test_what_waits_survives_the_agent(tmp_path: Path) -> None:
    """After a kill, the next agent has what was not sent, in order; only its user may read the file."""
    file = tmp_path / "annotations.sqlite"
    with closing(Outbox(file)) as first:
        for number in range(1, 8):
            first.put(said(number))
        first.drop(first.oldest(3))
        with closing(Outbox(file)) as second:  # the first one is not closed
            assert (second.oldest(100), second.waiting) == ([said(number) for number in range(4, 8)], 4)
    assert file.stat().st_mode & 0o777 == 0o600


def test_it_is_bounded(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """When too many wait, new ones are refused with the reason; those that wait stay."""
    monkeypatch.setattr(module, "MOST", 3)
    for number in range(1, 4):
        outbox.put(said(number))
    with pytest.raises(AnnotationRefused, match="3 annotations wait for the server"):
        outbox.put(said(4))
    assert len(outbox.oldest(100)) == 3


def test_a_damaged_file_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The agent goes on without annotations, says so, and names the file."""
    file = tmp_path / "annotations.sqlite"
    file.write_bytes(b"nonsense" * 1000)
    outbox = Outbox(file)
    with pytest.raises(AnnotationRefused, match="its log says why"):
        outbox.put(said(1))
    assert outbox.oldest(7) == []
    (told,) = caplog.records
    assert told.file == str(file)  # type: ignore[attr-defined]


def test_a_full_disk_is_told_to_the_program(outbox: Outbox) -> None:
    """What cannot be written is refused; later ones are taken when there is room again."""
    outbox.put(said(1))
    assert outbox._database
    (pages,) = outbox._database.execute("PRAGMA page_count").fetchone()
    outbox._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(AnnotationRefused, match="cannot keep the annotation"):
        for number in range(2, 200):
            outbox.put(said(number % 256))
    outbox._database.execute("PRAGMA max_page_count = 100000")
    before = outbox.waiting
    outbox.put(said(9))
    assert outbox.waiting == before + 1 == len(outbox.oldest(1000))


def test_it_closes_after_the_call_under_way(tmp_path: Path) -> None:
    """SQLite crashes the process if one thread closes a file that another reads."""
    with ThreadPoolExecutor(1) as thread:
        for number in range(30):
            outbox = Outbox(tmp_path / f"{number}.sqlite")
            outbox.put(said(1))
            reading = threading.Event()

            def read(outbox: Outbox = outbox, reading: threading.Event = reading) -> list[session_pb2.Annotation]:
                while waiting := outbox.oldest(1000):
                    reading.set()
                return waiting

            result = thread.submit(read)
            reading.wait()
            outbox.close()
            assert result.result() == []
