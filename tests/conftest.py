"""Prints the host's versions; lets tests skip only for what `scope doctor` reports as missing on this host.

Or for the previous release, where git's history lacks it; or for TimescaleDB, where nobody has named one.
"""

import gc
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests import previous_release, timescale
from tests.crashes import pytest_configure, pytest_terminal_summary  # noqa: F401  # hooks
from tests.distribution import pytest_xdist_make_scheduler  # noqa: F401  # a hook of pytest-xdist

from scope_bpf.capture.doctor import examine
from scope_bpf.host import features
from scope_bpf.probes import probe_named, probes
from scope_wire.tls import only_tls_1_3

only_tls_1_3()  # no test has imported gRPC yet
# Hundreds of `scope` processes, some on an emulated CPU, would otherwise compile each module that they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.set_threshold(10_000)  # as in `scope` itself
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore Ctrl-C
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # its handlers end a test's child that a preexec_fn prepares


def _version(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return f"no {command[0]}"


def pytest_collection_finish() -> None:
    """Thousands of tests live until the end: the garbage collector need not look at them again and again."""
    gc.freeze()


def pytest_report_header() -> list[str]:
    """Names the kernel and the tools that the test results depend on."""
    tools = (_version("clang", "--version"), f"libbpf {_version('pkg-config', '--modversion', 'libbpf')}")
    return [", ".join((f"kernel {platform.release()}", *tools, f"python {platform.python_version()}"))]


class _Runnable(dict[str, str]):
    """Examines a probe when a test first asks for it."""

    def __missing__(self, name: str) -> str:
        finding = examine(probe_named(name))
        self[name] = "" if finding.available else finding.reason
        return self[name]


_runnable = _Runnable()


@pytest.fixture(scope="session")
def runnable() -> dict[str, str]:
    """Probe -> why the probe cannot run here; empty if it can."""
    return _runnable


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Skips a test where `scope doctor` says that the host lacks a feature: `need("tracefs")`."""

    def check(name: str) -> None:
        (feature,) = (feature for feature in features() if feature.name == name)
        if not feature.available:
            pytest.skip(f"{name}: {feature.reason}")

    return check


_skipped: list[tuple[str, str]] = []


def _of_a_probe(reason: str) -> bool:
    return any(reason == _runnable[name] for name in probes())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the reason of each skipped test."""
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped.append((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a test run that skipped a test for a reason that `scope doctor` does not report."""
    if hasattr(session.config, "workerinput") or not _skipped:
        return
    missing = {previous_release.lacking() or None, timescale.lacking() or None} | {
        f"{feature.name}: {feature.reason}" for feature in features() if not feature.available
    }
    unexplained = [
        f"{test}: {reason}" for test, reason in _skipped if reason not in missing and not _of_a_probe(reason)
    ]
    if unexplained:
        print("\n\nskipped, though `scope doctor` says of nothing that it is missing:", *unexplained, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
