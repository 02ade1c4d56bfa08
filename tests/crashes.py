"""Tells where a worker crashed, at the end of the output: what it wrote itself is in the middle, between dots."""

import faulthandler
import os
import tempfile
from pathlib import Path

import pytest

_FOLDER = "SCOPE_CRASHES"  # from the process that began the run to its workers
_MOST_LINES = 40  # of one crash; below them is pytest


@pytest.hookimpl(trylast=True)  # after pytest's own, which writes to the standard error
def pytest_configure(config: pytest.Config) -> None:
    """A process that runs tests writes the stacks of its threads to a file of its own when it crashes."""
    worker = getattr(config, "workerinput", {}).get("workerid")
    if not worker:
        folder = tempfile.TemporaryDirectory(prefix="scope-crashes-")
        config.add_cleanup(folder.cleanup)
        os.environ[_FOLDER] = folder.name
    descriptor = os.open(f"{os.environ[_FOLDER]}/{worker or 'main'}", os.O_WRONLY | os.O_CREAT)
    config.add_cleanup(lambda: os.close(descriptor))
    faulthandler.enable(descriptor)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the stack of each thread that crashed."""
    for path in sorted(Path(os.environ[_FOLDER]).iterdir()):
        fault, _, crashed = path.read_text(errors="replace").partition("Current thread")
        if fault:
            terminalreporter.section(f"{path.name} crashed")
            for line in [fault.splitlines()[0], *crashed.splitlines()[:_MOST_LINES]]:
                terminalreporter.write_line(line)
