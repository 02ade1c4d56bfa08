"""The probes on a kernel that is not this host's: Debian 12's 6.1, in a virtual machine over this host's files."""

import json
import sys
from pathlib import Path

import pytest
from tests.guest.guest import fetch_kernel, run_in_guest

from scope_bpf.catalogue import probes

CACHE = Path(__file__).parents[1] / ".cache"


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The kernel's image, fetched once."""
    return fetch_kernel(CACHE)


@pytest.mark.timeout(300)
def test_every_probe_attaches(kernel: Path) -> None:
    """Verifier and maps of the older kernel take every probe."""
    ran = run_in_guest([sys.executable, "-m", "scope_cli.main", "doctor", "--json"], kernel=kernel, timeout=250)
    found = json.loads(ran.output[ran.output.index("{") :])
    assert found["kernel"].startswith("6.1.")
    assert {finding["probe"]: finding["available"] for finding in found["probes"]} == dict.fromkeys(probes(), True)


@pytest.mark.timeout(300)
def test_events_are_recorded(kernel: Path) -> None:
    """Events, their paths and their summaries come out there as here."""
    script = (
        f"{sys.executable} -m scope_cli.main trace files --json -- cat /etc/hostname | grep etc/hostname; "
        f"{sys.executable} -m scope_cli.main trace syscalls --mode summary --json -- true | grep -c execve"
    )
    ran = run_in_guest(["sh", "-c", script], kernel=kernel, timeout=250)
    assert '"path":"/root/etc/hostname"' in ran.output  # the guest runs in a chroot, and a path is absolute
    assert ran.output.split()[-1] == "1"
    assert ran.output.count("none lost") == 2
