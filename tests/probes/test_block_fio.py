"""The `block` probe beside fio: as many requests and bytes as fio says that it has made."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.disks import loop_disk, of, of_disk
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

# Reads, writes and both, of several sizes, by several processes, each with a queue of its own.
JOBS = """
[global]
filename={disk}
direct=1
ioengine=libaio
iodepth=7
size=8m
[reads]
rw=randread
bsrange=4k-64k
[writes]
rw=write
bs=12k
offset=8m
[both]
rw=randrw
rwmixread=37
bsrange=4k-32k
offset=16m
numjobs=3
"""


ATTEMPTS = 4

Totals = Counter[tuple[str, str]]  # of requests and bytes, by direction


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A disk whose requests stay as fio makes them: nothing is merged."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed; `deploy/install-packages.sh test` installs it")
    with loop_disk(tmp_path / "disk") as made:
        queue = of_disk(made) / "queue"
        (queue / "scheduler").write_text("none")  # another test may have left one that merges
        (queue / "nomerges").write_text("2")
        try:
            yield made
        finally:
            (queue / "nomerges").write_text("0")


@pytest.fixture
def ran(record: Record, disk: str, tmp_path: Path) -> Callable[..., tuple[Recording, Totals]]:
    """Records fio until it found as much as fio says; returns the last recording, and what was found.

    A disk is done in an interrupt, above any thread. There are sandboxes that let no program run above threads of their
    own, and do not say so: what happens there is no program's to count.
    """
    (tmp_path / "jobs").write_text(JOBS.format(disk=disk))
    fio = ["fio", "--output-format=json", f"--output={tmp_path / 'said'}", str(tmp_path / "jobs")]

    def run(found_in: Callable[[Recording], Totals], **options: Any) -> tuple[Recording, Totals]:
        for _ in range(ATTEMPTS):
            recording = record("block", fio, **options)
            found = found_in(recording)
            if found == made(tmp_path / "said"):
                break
        return recording, found

    return run


def made(file: Path) -> Totals:
    """How many requests and bytes fio says that it has made."""
    jobs: list[dict[str, Any]] = json.loads(file.read_text())["jobs"]
    found = Totals()
    for job in jobs:
        for direction in ("read", "write"):
            found[direction, "requests"] += job[direction]["total_ios"]
            found[direction, "bytes"] += job[direction]["io_bytes"]
    return found


def test_requests_are_those_that_fio_counts(
    ran: Callable[..., tuple[Recording, Totals]], disk: str, tmp_path: Path
) -> None:
    """Each request of fio is a row, and their bytes are fio's, by direction; all are of its processes, and none is
    lost."""

    def found_in(recording: Recording) -> Totals:
        found = Totals()
        for row in of(recording.rows("block"), disk):
            found[row["operation"], "requests"] += 1
            found[row["operation"], "bytes"] += row["bytes"]
        return found

    recording, found = ran(found_in)
    assert found == made(tmp_path / "said")
    assert found["read", "requests"] > 300 and found["write", "requests"] > 300
    rows = of(recording.rows("block"), disk)
    assert {row["comm"] for row in rows} == {"fio"} and len({row["pid"] for row in rows}) == 5
    assert recording.accounts["block"].lost == {}


def test_a_summary_is_what_fio_counts(ran: Callable[..., tuple[Recording, Totals]], disk: str, tmp_path: Path) -> None:
    """Counts and bytes of the summary, added up by direction, are fio's."""

    def found_in(recording: Recording) -> Totals:
        found = Totals()
        for row in of(recording.rows("block_summary"), disk):
            found[row["operation"], "requests"] += row["count"]
            found[row["operation"], "bytes"] += row["bytes"]
        return found

    _, found = ran(found_in, mode="summary", interval_ms=ONE_INTERVAL_MS)
    assert found == made(tmp_path / "said")
