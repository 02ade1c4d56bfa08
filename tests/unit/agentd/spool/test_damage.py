"""Bytes that rot on disk: what is damaged is found, counted, and becomes a Gap; nothing else is lost."""

import contextlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain

from scope_agentd.pipeline.spool import Outcome, Spool

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
    """What a crashed agent left."""
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
    """As when an agent starts, though half of it was sent before, and another start does not tell it again."""
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
    """Damaged neighbours with readable numbers have spans of their own: the server may have stored one of them."""
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
        data[end - 30] ^= 1  # in the columns
    (copy / file.name).write_bytes(data)
    with contextlib.closing(Spool(copy, LIMIT, SEGMENT)) as again:
        await drain(again, server.receive)
    server.check(run)
    assert set(server.lost[run.run_id, "cuda"]) == {(2, 2), (4, 4)}


async def test_a_lost_page(tmp_path: Path) -> None:
    """Zeros in the middle of the last segment, as a power cut leaves them: what is behind them is still sent."""
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
    """A run whose end cannot be read is open: the agent that finds it ends it."""
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
    """Somebody deletes a file of the spool: the log says so, and all else is sent."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        for _ in range(100):
            spool.put(run.batch())
        segments(tmp_path / "spool")[1].unlink()
        await drain(spool, server.receive)
    assert "cannot be read" in caplog.text
    assert 60 < len(server.stored[run.run_id, "cuda"]) < 100
