"""`scope config`: what is wrong with a configuration, or what holds and why."""

from pathlib import Path

import pytest

from scope_cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.toml"


def test_the_sample_is_a_file_to_start_from(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a database, the printed sample is a valid file."""
    assert main(["config", "sample", "server"]) == 0
    file.write_text(capsys.readouterr().out + 'database = "dbname=scope"\n')
    capsys.readouterr()
    assert main(["config", "check", "server", str(file)]) == 0
    assert capsys.readouterr().out == "the server, `scope server`: no problem\n"


def test_each_value_is_shown_with_its_origin(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values are listed, where each came from, and what is done without one. A password is not shown."""
    file.write_text('database = "host=db password=sesame"\nkeep_days = 7\n')
    monkeypatch.setenv("SCOPE_SERVER_WRITERS", "3")
    assert main(["config", "show", "server", str(file)]) == 0
    said = capsys.readouterr().out
    lines = [line.split(maxsplit=1) for line in said.splitlines()[1:]]
    shown = {name: " ".join(rest.split()) for name, rest in lines}
    assert shown["keep_days"] == f"7 {file}:2"
    assert shown["writers"] == "3 SCOPE_SERVER_WRITERS"
    assert shown["keep_bytes"] == "not set: 20 % of the database's disk, at most 20G default"
    assert "host=db" in shown["database"]
    assert "sesame" not in said


def test_a_wrong_value_hides_no_other(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` does not judge: it prints what holds, and names the command that says what is wrong."""
    file.write_text("keep_days = 0\nwriters = 3\n")
    assert main(["config", "show", "server", str(file)]) == 0
    said = capsys.readouterr()
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in said.out.splitlines()}
    assert shown["keep_days"] == "no value that can be used"
    assert shown["database"] == "missing"
    assert shown["writers"] == f"3 {file}:2"
    assert "`scope config check server` says which" in said.err


def test_what_may_be_a_mistake_is_noted(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of no setting is no problem, since others may make it, but it is told."""
    file.write_text('database = "host=db"\n')
    monkeypatch.setenv("SCOPE_SERVER_WRITER", "3")
    assert main(["config", "check", "server", str(file)]) == 0
    assert "note: SCOPE_SERVER_WRITER is the variable of no setting (did you mean" in capsys.readouterr().out


def test_a_line_for_each_problem(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1; each problem is a line of its own."""
    file.write_text("keep_days = 0\nhtp = 1\n")
    assert main(["config", "check", "server", str(file)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    told = [line.split(": ")[1] for line in said.err.splitlines()]
    assert told[:2] == [f"{file}:1", f"{file}:2"]
    assert told[2].startswith("database is missing; write it into")


def test_a_missing_file_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was named must exist."""
    assert main(["config", "check", "server", str(file)]) == 2
    assert f"{file} does not exist" in capsys.readouterr().err
