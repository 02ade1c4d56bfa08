"""What every test run says of its host, and how tests that need the kernel skip on one that cannot."""

import platform
import subprocess

import pytest

from scope_bpf.catalogue import probes
from scope_bpf.doctor import examine


def _version(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return f"no {command[0]}"


def pytest_report_header() -> list[str]:
    """Names the kernel and the tools that the results depend on."""
    tools = (_version("clang", "--version"), f"libbpf {_version('pkg-config', '--modversion', 'libbpf')}")
    return [", ".join((f"kernel {platform.release()}", *tools, f"python {platform.python_version()}"))]


@pytest.fixture(scope="session")
def runnable() -> dict[str, str]:
    """Probe -> why it cannot run here; empty if it can."""
    return {name: "" if (finding := examine(probe)).available else finding.reason for name, probe in probes().items()}
