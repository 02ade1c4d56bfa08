"""`scope tail --local` where it cannot read."""

import socket
from pathlib import Path

import pytest

from scope_cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exec"], "give --local; for events that a server has stored, use `scope events STREAM --follow`"),
        (["--local", "exce"], "no stream 'exce' (did you mean 'exec'?)"),
        (["--local", "--limit", "0"], "--limit 0 is not above 0"),
    ],
)
def test_wrong_usage_is_explained(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what to do instead."""
    assert main(["tail", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("left", [False, True], ids=["nothing there", "a killed agent's socket"])
def test_without_an_agent_it_says_where_it_looked(
    left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no agent runs, or one was killed, it fails and names the socket and the remedy."""
    path = tmp_path / "bus" / "socket"
    path.parent.mkdir()
    if left:
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path))
    monkeypatch.setenv("SCOPE_STATE", str(tmp_path))
    monkeypatch.setattr("scope_cli.tail.reader._FIRST_ANSWER_S", 0.5)
    assert main(["tail", "--local"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"scope: no agent offers events at {path}; start one with `scope up`, or name its state")
