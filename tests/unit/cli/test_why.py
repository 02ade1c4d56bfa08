"""`scope why`: what it is about."""

import pytest

from scope_cli.main import main


def test_a_pid_is_no_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """Who gives a pid without its option is told the option, without a server."""
    assert main(["why", "4711"]) == 2
    assert capsys.readouterr().err == "scope: 4711 is no stream; of a process: scope why --pid 4711\n"
