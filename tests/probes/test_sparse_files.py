"""Files that claim to be large: what is not read of them is told, and they cost a trace little."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sparse_files import CODE, claiming

FILES, SIZE = 12, 1 << 29
# mov $10000000, %ecx; dec %ecx; jnz to the dec; ret
LOOP = b"\xb9" + (10_000_000).to_bytes(4, "little") + b"\xff\xc9\x75\xfc\xc3"
CALLED = [sys.executable, "-S", "-E", str(Path(__file__).parent / "workloads" / "called_files.py"), str(CODE)]
MOST_MB = 300  # without the files, 140


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code of the files is x86's")
def test_what_files_claim_costs_little(runnable: dict[str, str], tmp_path: Path) -> None:
    """A program that computes in files of 6 GiB together, which take no disk: each is named with what was left out of
    its names and its unwind table, and they are never read whole."""
    if runnable["profile"]:
        pytest.skip(runnable["profile"])
    files = [tmp_path / f"claims-{number}" for number in range(FILES)]
    for path in files:
        with claiming(path, SIZE) as file:
            os.pwrite(file.fileno(), LOOP, CODE)
    command = [
        sys.executable,
        "-m",
        "scope_cli.main",
        "trace",
        "profile",
        "-o",
        "rate=199",
        "--",
        *CALLED,
        *map(str, files),
    ]
    with (tmp_path / "told").open("w+") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        said = told.read()
    assert process.returncode == 0, said
    unread = {line.split(": ")[1]: line for line in said.splitlines() if line.startswith("names not read: ")}
    assert unread.keys() == {*map(str, files)}
    for name, line in unread.items():
        assert ".symtab: all but 4,194,304 of 22,368,938 symbols" in line
        assert f"unwound by frame pointers: {name}: too large, .eh_frame: " in said
    assert used.ru_maxrss >> 10 < MOST_MB
