"""Damaged records on disk are found and counted, and become a Gap; nothing else is lost."""

import asyncio
import contextlib
import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.pipeline.spool import Outcome, Spool, log, outbox

LIMIT, SEGMENT = 1 << 20, 4 << 10


class Story:
    """A spool of several segments with two streams of two runs, one of which has ended."""

    def __init__(self, directory: Path) -> None:
        self.runs = [Run(1), Run(2)]
        self.spool = Spool(directory, LIMIT, SEGMENT)
        for run in self.runs:
            self.spool.put(run.start())
        for at in range(200):
            self.spool.put(self.runs[at % 2].batch(("cuda", "syscalls")[at // 2 % 2], size=50 + at % 70))
            if at % 20 == 0:
                self.spool.put(self.runs[0].accounts())
        self.spool.put(self.runs[0].end())
        for _ in range(30):
            self.spool.put(self.runs[1].batch())


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Path]]:
    """The spool's files as a crashed agent leaves them."""
    directory = tmp_path_factory.mktemp("story")
    story = Story(directory / "spool")
    shutil.copytree(directory / "spool", directory / "left")
    yield story, directory / "left"
    story.spool.close()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def flip(file: Path, chance: random.Random, bits: int = 1) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(bits):
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("bits", [1, 4])
async def test_flipped_bits_found_at_the_start(left: tuple[Story, Path], tmp_path: Path, seed: int, bits: int) -> None:
    """With bits flipped anywhere in a segment, each sequence is a batch or in one Gap, and no event is missing."""
    story, directory = left
    chance = random.Random(seed)
    copy = shutil.copytree(directory, tmp_path / "copy")
    file = chance.choice(segments(copy)[:-1])
    flip(file, chance, bits)
    server = Server()
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as spool:
        assert story.runs[1].run_id in spool.open_runs
        await drain(spool, server.receive)
        assert spool.held().damaged_records > 0 or not server.gaps
    for run in story.runs:
        server.check(run)
    for lost in server.lost.values():
        assert sum(last - first + 1 for first, last in lost) <= bits


@pytest.mark.parametrize("seed", range(20))
async def test_flipped_bits_found_while_sending(tmp_path: Path, seed: int) -> None:
    """Damage found while sending is booked once, even if half the records were sent before and the agent restarts."""
    story, server = Story(tmp_path / "spool"), Server()
    chance = random.Random(seed)
    for _ in range(chance.randrange(200)):
        spooled = await story.spool.take()
        if chance.random() < 0.5:
            server.receive(spooled.record, spooled.crc32)
        if chance.random() < 0.5:
            server.receive(spooled.record, spooled.crc32)
            story.spool.settle(spooled.position, Outcome.STORED)
    story.spool.rewind()
    for file in segments(tmp_path / "spool")[:-1]:
        flip(file, chance)
    taken = [await story.spool.take() for _ in range(chance.randrange(100))]
    for spooled in taken:
        server.receive(spooled.record, spooled.crc32)
    again = shutil.copytree(tmp_path / "spool", tmp_path / "again")
    story.spool.close()
    with contextlib.closing(Spool(again, LIMIT, SEGMENT)) as spool:
        await drain(spool, server.receive)
    for run in story.runs:
        server.check(run)


async def test_the_damaged_place_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the file and the offset, and the Gap has the times between its neighbours."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        (file,) = segments(tmp_path / "spool")
        spool.put(run.start())
        spool.put(run.batch())
        offset = file.stat().st_size
        spool.put(run.batch())
        spool.put(run.batch())
        data = bytearray(file.read_bytes())
        data[offset + 60] ^= 1
        file.write_bytes(data)
        await drain(spool, server.receive)
        assert spool.held().damaged_records == 1
    (record,) = [record for record in caplog.records if "damaged" in record.message]
    assert (record.file, record.offset) == (str(file), offset)  # type: ignore[attr-defined]
    server.check(run)
    (gap,) = server.gaps
    assert (gap.gap.place, gap.gap.reason) == ("spool", "damaged")
    assert (gap.gap.first_ktime_ns, gap.gap.last_ktime_ns) == (1999, 3000)


async def test_neighbours_are_told_apart(tmp_path: Path) -> None:
    """Adjacent damaged records with readable sequences get one span each: the server may have stored one of them."""
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    run, server = Run(1), Server()
    (file,) = segments(tmp_path / "spool")
    ends = []
    for _ in range(6):
        spool.put(run.batch())
        ends.append(file.stat().st_size)
    for spooled in [await spool.take() for _ in range(3)][2:]:
        server.receive(spooled.record, spooled.crc32)
    copy = shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    spool.close()
    data = bytearray((copy / file.name).read_bytes())
    for end in ends[1:4]:
        data[end - 30] ^= 1  # in the columns' bytes
    (copy / file.name).write_bytes(data)
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as again:
        await drain(again, server.receive)
    server.check(run)
    assert set(server.lost[run.run_id, "cuda"]) == {(2, 2), (4, 4)}


async def test_what_a_filter_left_out_is_in_no_gap(tmp_path: Path) -> None:
    """If a run's last batch is damaged, the gap has its events, without those that the task's filter left out."""
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    run, server = Run(1), Server()
    run.left_out = 1009
    (file,) = segments(tmp_path / "spool")
    for record in (run.start(), run.batch(), run.batch()):
        spool.put(record)
    end = file.stat().st_size
    spool.put(run.end())
    copy = shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    spool.close()
    data = bytearray((copy / file.name).read_bytes())
    data[end - 60] ^= 1
    (copy / file.name).write_bytes(data)
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as again:
        await drain(again, server.receive)
    assert server.lost[run.run_id, "cuda"] == {(2, 2): run.events["cuda"][1]}


async def test_a_lost_page(tmp_path: Path) -> None:
    """Records behind a page of zeros, as a power cut leaves it in the last segment, are still sent."""
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    run, server = Run(1), Server()
    for _ in range(30):
        spool.put(run.batch())
    copy = shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    spool.close()
    file = segments(copy)[0]
    data = file.read_bytes()
    file.write_bytes(data[:1000] + bytes(1000) + data[2000:])
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as again:
        await drain(again, server.receive)
    server.check(run)
    assert sum(last - first + 1 for first, last in server.lost[run.run_id, "cuda"]) < 9


async def test_a_damaged_end_is_told_again(tmp_path: Path) -> None:
    """A run whose end record is damaged counts as open, so that the next agent ends it again."""
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    run = Run(1)
    spool.put(run.start())
    (file,) = segments(tmp_path / "spool")
    before = file.stat().st_size
    spool.put(run.end())
    for _ in range(50):
        spool.put(Run(2).batch())
    copy = shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    spool.close()
    data = bytearray((copy / file.name).read_bytes())
    data[before + 20] ^= 1
    (copy / file.name).write_bytes(data)
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as again:
        assert run.run_id in again.open_runs


async def test_a_segment_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If somebody deletes a segment, the log says so, its events are lost in a Gap, and the other segments are sent."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        for _ in range(100):
            spool.put(run.batch())
        segments(tmp_path / "spool")[1].unlink()
        await drain(spool, server.receive)
    assert "was deleted by somebody else" in caplog.text
    assert 60 < len(server.stored[run.run_id, "cuda"]) < 100
    server.check(run)


async def test_a_lost_page_found_while_sending_again(tmp_path: Path) -> None:
    """Records in a lost page are booked as lost if they were sent before it was lost, and are to be sent again."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        for _ in range(12):
            spool.put(run.batch())
        for spooled in [await spool.take() for _ in range(12)][:2]:
            server.receive(spooled.record, spooled.crc32)
        with pytest.raises(TimeoutError):  # nothing is left to read ahead
            await asyncio.wait_for(spool.take(), 0.01)
        (file, *_) = segments(tmp_path / "spool")
        data = file.read_bytes()
        file.write_bytes(data[:700] + bytes(600) + data[1300:])
        spool.rewind()
        await drain(spool, server.receive)
    server.check(run)
    assert server.lost[run.run_id, "cuda"]


async def test_the_newest_segment_is_gone(tmp_path: Path) -> None:
    """If somebody deletes the segment that is being written, sending goes on with the next one."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        for _ in range(5):
            spool.put(run.batch())
        segments(tmp_path / "spool")[-1].unlink()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(spool.take(), 0.01)
        for _ in range(100):
            spool.put(run.batch())
        await drain(spool, server.receive)
    assert len(server.stored[run.run_id, "cuda"]) > 50


async def test_without_descriptors_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While no file can be opened, no segment is sent or dropped; afterwards everything is sent.

    It is tried again, and logged, once per pause, however many records are put meanwhile.
    """
    monkeypatch.setattr(outbox, "_READ_AGAIN_S", 0.5)
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server, opened = Run(1), Server(), os.open
        for _ in range(100):
            spool.put(run.batch())

        def refused(file: str, flags: int, mode: int = 0o777) -> int:
            if flags & os.O_CREAT:
                return opened(file, flags, mode)
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(os, "open", refused)
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(spool.take(), 0.001)
        assert 1 <= caplog.text.count("trying again") < 20
        monkeypatch.setattr(os, "open", opened)
        await drain(spool, server.receive)
    server.check(run)
    assert not server.gaps


async def test_damage_found_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shows a loss stays on disk until the loss itself can be written, also over another kill."""
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    run, server = Run(1), Server()
    spool.put(run.start())
    for _ in range(60):
        spool.put(run.batch())
    first = shutil.copytree(tmp_path / "spool", tmp_path / "first")
    spool.close()
    file = segments(first)[0]
    data = bytearray(file.read_bytes())
    data[1000] ^= 1
    file.write_bytes(data)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log, "_write", full)
        spool = Spool(first, LIMIT, SEGMENT)
        for spooled in [await spool.take() for _ in range(58)]:
            server.receive(spooled.record, spooled.crc32)
            spool.settle(spooled.position, Outcome.STORED)
        second = shutil.copytree(first, tmp_path / "second")
    spool.close()
    with contextlib.closing(Spool(second, LIMIT, SEGMENT)) as again:
        await drain(again, server.receive)
    server.check(run)
    assert len(server.lost[run.run_id, "cuda"]) == 1
