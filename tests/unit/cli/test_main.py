"""The command line as a process."""

import os
import subprocess
import sys


def test_what_was_printed_before_a_failure_is_not_lost() -> None:
    """The process ends at once, but standard output, which a pipe makes a buffer of, is written first."""
    program = (
        "import scope_cli.command_line\n"
        "from scope_cli.main import enter\n"
        "scope_cli.command_line.run = lambda arguments: print('printed') or 3\n"
        "enter()"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("printed\n", "", 3)
