"""Rows of cgroups on a machine with cgroup v2 alone, in a virtual machine with this host's files."""

import sys
from pathlib import Path

import pytest
from tests.guest.guest import TIMEOUT_S, fetch_kernel, run_in_guest

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)
CACHE = Path(__file__).parents[1] / ".cache"
# The guest has no disk: a block device in memory is one, with the file system that the tests write to.
SCRIPT = """
set -e
/sbin/modprobe -d "$2" null_blk memory_backed=1 nr_devices=1 gb=1
/sbin/modprobe -d "$2" -a ext4 loop
/sbin/mkfs.ext4 -q /dev/nullb0
mkdir /mnt/disk
mount /dev/nullb0 /mnt/disk
exec "$1" -m pytest -q -p no:cacheprovider --basetemp=/mnt/disk/tests tests/probes/test_cgroups.py \\
    tests/probes/version_2.py tests/probes/test_memory.py -k "not mappings and not stacks and not faults"
"""


def test_all_figures_are_those_of_version_2() -> None:
    """CPU time, limits, memory, kills, disks and write-back are right where each controller is in cgroup v2."""
    kernel = fetch_kernel(CACHE)
    ran = run_in_guest(["sh", "-c", SCRIPT, "sh", sys.executable, str(kernel.parents[3])], kernel=kernel)
    assert (ran.returncode, "13 passed" in ran.output) == (0, True), ran.output
