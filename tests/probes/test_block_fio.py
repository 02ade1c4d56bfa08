"""The `block` probe beside fio: as many requests and bytes as fio says that it has made."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.disks import loop_disk, of
from tests.probes.recording import ONE_INTERVAL_MS, Record

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


@pytest.fixture
def command(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A disk, and fio's command for it; the figures go to the file `said`."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed; `deploy/install-packages.sh test` installs it")
    with loop_disk(tmp_path / "disk") as disk:
        (tmp_path / "jobs").write_text(JOBS.format(disk=disk))
        yield disk, ["fio", "--output-format=json", f"--output={tmp_path / 'said'}", str(tmp_path / "jobs")]


def made(file: Path) -> Counter[tuple[str, str]]:
    """How many requests and bytes fio says that it has made, by direction."""
    jobs: list[dict[str, Any]] = json.loads(file.read_text())["jobs"]
    found = Counter[tuple[str, str]]()
    for job in jobs:
        for direction in ("read", "write"):
            found[direction, "requests"] += job[direction]["total_ios"]
            found[direction, "bytes"] += job[direction]["io_bytes"]
    return found


def test_requests_are_those_that_fio_counts(record: Record, command: tuple[str, list[str]], tmp_path: Path) -> None:
    """Each request of fio is a row, and their bytes are fio's, by direction; all are of its processes, and none is
    lost."""
    disk, fio = command
    recording = record("block", fio)
    rows = of(recording.rows("block"), disk)
    found = Counter[tuple[str, str]]()
    for row in rows:
        found[row["operation"], "requests"] += 1
        found[row["operation"], "bytes"] += row["bytes"]
    assert found == made(tmp_path / "said")
    assert found["read", "requests"] > 300 and found["write", "requests"] > 300
    assert {row["comm"] for row in rows} == {"fio"} and len({row["pid"] for row in rows}) == 5
    assert recording.accounts["block"].lost == {}


def test_a_summary_is_what_fio_counts(record: Record, command: tuple[str, list[str]], tmp_path: Path) -> None:
    """Counts and bytes of the summary, added up by direction, are fio's."""
    disk, fio = command
    recording = record("block", fio, mode="summary", interval_ms=ONE_INTERVAL_MS)
    found = Counter[tuple[str, str]]()
    for row in of(recording.rows("block_summary"), disk):
        found[row["operation"], "requests"] += row["count"]
        found[row["operation"], "bytes"] += row["bytes"]
    assert found == made(tmp_path / "said")
