"""The records that an earlier agent left are delivered by the next one."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.agentd.spool.model import Run, Server, drain, nowhere, take_all

from scope_agentd.errors import SpoolInUse, SpoolUnusable
from scope_agentd.pipeline.spool import Outcome, Spool

LIMIT, SEGMENT = 1 << 20, 1 << 12


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def abandon(spool: Spool, directory: Path, to: Path) -> Path:
    """Copies the spool's files as a crash leaves them, before the spool is closed."""
    shutil.copytree(directory, to)
    spool.close()
    return to


async def test_unsettled_records_come_again(tmp_path: Path) -> None:
    """The next agent takes all unsettled records in order, whether they were taken before or not."""
    run = Run(1)
    spool = Spool(tmp_path / "spool", LIMIT, SEGMENT)
    spool.put(run.start())
    for _ in range(200):
        spool.put(run.batch())
    taken = [await spool.take() for _ in range(100)]
    spool.settle(taken[0].position, Outcome.STORED)
    left = abandon(spool, tmp_path / "spool", tmp_path / "left")
    with contextlib.closing(Spool(left, LIMIT, SEGMENT)) as again:
        records = await take_all(again, again.held().records)
    assert [record.batch.sequence for record in records if record.HasField("batch")] == list(range(1, 201))


async def test_nothing_settled_is_left_after_a_clean_end(tmp_path: Path) -> None:
    """A spool that is closed empty leaves one segment, and is empty when it is opened again."""
    directory = tmp_path / "spool"
    spool = Spool(directory, LIMIT, SEGMENT)
    for _ in range(100):
        spool.put(Run(1).batch())
    await drain(spool, nowhere)
    spool.close()
    assert len(segments(directory)) == 1
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as again:
        assert again.held().records == again.held().bytes == 0


async def test_open_runs(tmp_path: Path) -> None:
    """open_runs has each run without an end, with its last sequences and accounts, even if all records are settled."""
    directory = tmp_path / "spool"
    spool = Spool(directory, LIMIT, SEGMENT)
    ended, open_run = Run(1), Run(2)
    for run in (ended, open_run):
        spool.put(run.start())
        for stream in ("cuda", "syscalls"):
            for _ in range(60):
                spool.put(run.batch(stream))
    spool.put(ended.end())
    spool.put(open_run.accounts())
    await drain(spool, nowhere)
    left = abandon(spool, directory, tmp_path / "left")
    with contextlib.closing(Spool(left, LIMIT, SEGMENT)) as again:
        assert list(again.open_runs) == [open_run.run_id]
        told = again.open_runs[open_run.run_id]
        for stream, events in open_run.events.items():
            assert told.streams[stream][:2] == (60, sum(events))
        assert told.accounts is not None
        assert told.accounts.streams["cuda"].emitted == sum(open_run.events["cuda"])
        again.put(open_run.end())
    with contextlib.closing(Spool(left, LIMIT, SEGMENT)) as third:
        assert third.open_runs == {}


async def test_a_last_segment_that_ends_anywhere(tmp_path: Path) -> None:
    """Wherever the last segment is cut, exactly the whole records before the cut are taken."""
    directory, run = tmp_path / "spool", Run(1)
    spool = Spool(directory, LIMIT, SEGMENT)
    ends = []
    file = segments(directory)[-1]
    for record in (run.start(), run.batch(size=9), run.accounts(), run.batch("syscalls", 5), run.end()):
        spool.put(record)
        ends.append(file.stat().st_size)
    spool.close()
    whole = file.read_bytes()
    for size in range(len(whole) + 1):
        cut = tmp_path / f"cut-{size}"
        cut.mkdir()
        (cut / file.name).write_bytes(whole[:size])
        with contextlib.closing(Spool(cut, LIMIT, SEGMENT)) as again:
            assert again.held().records == sum(end <= size for end in ends), size
            await take_all(again, again.held().records)
            again.put(run.start())  # put still works
        shutil.rmtree(cut)


KILLED = """
import sys
from pathlib import Path
from scope_agentd.pipeline.spool import Spool
from tests.unit.agentd.spool.model import Run
spool, run = Spool(Path(sys.argv[1]), 64 << 20, 1 << 16), Run(1)
while True:
    spool.put(run.batch(size=3000))
    print(len(run.events["cuda"]), flush=True)
"""


async def test_kill_costs_nothing_that_was_put(tmp_path: Path) -> None:
    """After kill -9, every record whose put returned is still in the spool."""
    for life in range(4):
        directory = tmp_path / f"life-{life}"
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, directory], stdout=subprocess.PIPE, cwd=Path(__file__).parents[4]
        )
        assert process.stdout
        for _ in range(50 + 37 * life):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
        put = 50 + 37 * life + rest.count(b"\n")
        with contextlib.closing(Spool(directory, 64 << 20, 1 << 16)) as spool:
            taken = await take_all(spool, spool.held().records)
        assert [record.batch.sequence for record in taken] == list(range(1, len(taken) + 1))
        assert put <= len(taken) <= put + 1


def test_one_owner(tmp_path: Path) -> None:
    """A second spool in the same directory is refused, and works once the first is closed."""
    first = Spool(tmp_path / "spool")
    with pytest.raises(SpoolInUse, match="another agent uses"):
        Spool(tmp_path / "spool")
    first.close()
    Spool(tmp_path / "spool").close()


def test_the_directory_is_private(tmp_path: Path) -> None:
    """Only the owner can read the spool's directory and files."""
    Spool(tmp_path / "spool").close()
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "spool").iterdir())


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    """A directory that cannot be created is one error that names the remedy."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolUnusable, match="state directory that it can write to"):
        Spool(tmp_path / "file" / "spool")


def test_a_read_only_disk(tmp_path: Path) -> None:
    """A read-only disk raises the same error as a directory that cannot be created."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(SpoolUnusable, match="Read-only"):
            Spool(tmp_path / "spool")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_an_unknown_version_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A segment of another version is neither read nor deleted; the rest works, and the log says so."""
    directory = tmp_path / "spool"
    Spool(directory, LIMIT, SEGMENT).close()
    shutil.copy(Path(__file__).parent / "golden" / "unknown-version.segment", directory / f"{7:020}.segment")
    before = (directory / f"{7:020}.segment").read_bytes()
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        spool.put(Run(1).start())
        assert spool.held().records == 1
    assert "format that this version does not know" in caplog.text
    assert (directory / f"{7:020}.segment").read_bytes() == before


async def test_records_are_made_durable_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread syncs written records to disk, even if no other record follows."""
    synced: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with contextlib.closing(Spool(tmp_path / "spool")) as spool:
        file = segments(tmp_path / "spool")[-1]
        spool.put(Run(1).start())
        deadline = time.monotonic() + 30
        while not {str(file), str(tmp_path / "spool")} <= set(synced):
            assert time.monotonic() < deadline
            time.sleep(0.01)


async def test_a_server_sees_each_sequence_once(tmp_path: Path) -> None:
    """Unsettled records are resent after each kill: the server stores every sequence, and nothing is lost."""
    server, runs, directory = Server(), [], tmp_path / "spool"
    for life in range(5):
        spool = Spool(directory, LIMIT, SEGMENT)
        run = Run(life)
        runs.append(run)
        spool.put(run.start())
        for _ in range(97):
            spool.put(run.batch())
        for _ in range(60):
            spooled = await spool.take()
            server.receive(spooled.record, spooled.crc32)
            if spooled.position % 3:
                spool.settle(spooled.position, Outcome.STORED)
        directory = abandon(spool, directory, tmp_path / f"spool-{life}")
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        await drain(spool, server.receive)
    for run in runs:
        server.check(run)
    assert not server.gaps
