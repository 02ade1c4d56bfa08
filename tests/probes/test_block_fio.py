"""The `block` probe beside fio: as many requests and bytes as fio says that it has made."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.disks import SECTOR, ended_in_init, loop_disk, of, of_disk
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording
from tests.tracefs import seen

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


Totals = Counter[tuple[str, str]]  # of requests and bytes, by direction
# "7,0 WS () 36984 + 8 be,0,4 [0]"
END = re.compile(r"block_rq_complete: \S+ (?P<direction>[RW])\S* \(.*\) \d+ \+ (?P<sectors>\d+) ")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A disk whose requests stay as fio makes them: nothing is merged."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed; `deploy/install-packages.sh test` installs it")
    with loop_disk(tmp_path / "disk") as device:
        queue = of_disk(device) / "queue"
        (queue / "scheduler").write_text("none")  # another test may have left one that merges
        (queue / "nomerges").write_text("2")
        try:
            yield device
        finally:
            (queue / "nomerges").write_text("0")


@pytest.fixture
def ran(record: Record, disk: str, tmp_path: Path) -> Callable[..., tuple[Recording, Totals]]:
    """Records fio; returns the recording, and what fio says that it has made, but for what ended in init."""
    (tmp_path / "jobs").write_text(JOBS.format(disk=disk))
    said = tmp_path / "said"

    def run(**options: Any) -> tuple[Recording, Totals]:
        with seen("block/block_rq_complete", in_init=True) as ends:
            fio = ["fio", "--output-format=json", f"--output={said}", str(tmp_path / "jobs")]
            recording = record("block", fio, **options)
        return recording, made(said) - unseen(ended_in_init(ends, disk))

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


def unseen(ends: list[str]) -> Totals:
    """How many requests and bytes ended so, by direction."""
    found = Totals()
    for line in ends:
        end = END.search(line)
        assert end, line
        direction = {"R": "read", "W": "write"}[end["direction"]]
        found[direction, "requests"] += 1
        found[direction, "bytes"] += int(end["sectors"]) * SECTOR
    return found


def test_requests_are_those_that_fio_counts(ran: Callable[..., tuple[Recording, Totals]], disk: str) -> None:
    """Each request of fio is a row, and their bytes are fio's, by direction; all are of its processes, and none is
    lost."""
    recording, expected = ran()
    rows = of(recording.rows("block"), disk)
    found = Totals()
    for row in rows:
        found[row["operation"], "requests"] += 1
        found[row["operation"], "bytes"] += row["bytes"]
    assert found == expected
    assert found["read", "requests"] > 300 and found["write", "requests"] > 300
    assert {row["comm"] for row in rows} == {"fio"} and len({row["pid"] for row in rows}) == 5
    assert recording.accounts["block"].lost == {}


def test_a_summary_is_what_fio_counts(ran: Callable[..., tuple[Recording, Totals]], disk: str) -> None:
    """Counts and bytes of the summary, added up by direction, are fio's."""
    recording, expected = ran(mode="summary", interval_ms=ONE_INTERVAL_MS)
    found = Totals()
    for row in of(recording.rows("block_summary"), disk):
        found[row["operation"], "requests"] += row["count"]
        found[row["operation"], "bytes"] += row["bytes"]
    assert found == expected
