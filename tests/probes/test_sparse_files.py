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
# A process's high-water mark counts what it was before exec, so a small one starts the trace.
MEASURING = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(f"most: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}", file=sys.stderr)
sys.exit(status)
"""
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
    trace = ["-m", "scope_cli.main", "trace", "profile", "-o", "rate=199", "--", *CALLED, *map(str, files)]
    ran = subprocess.run([sys.executable, "-c", MEASURING, sys.executable, *trace], capture_output=True, text=True)
    said, _, most_kb = (ran.stdout + ran.stderr).rpartition("most: ")
    assert ran.returncode == 0, said
    unread = {line.split(": ")[1]: line for line in said.splitlines() if line.startswith("names not read: ")}
    assert unread.keys() == {*map(str, files)}
    for name, line in unread.items():
        assert ".symtab: all but 4,194,304 of 22,368,938 symbols" in line
        assert f"unwound by frame pointers: {name}: too large, .eh_frame: " in said
    assert int(most_kb) >> 10 < MOST_MB
