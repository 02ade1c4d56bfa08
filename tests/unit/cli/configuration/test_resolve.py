"""Which value of a setting holds, and what is said about wrong ones."""

from pathlib import Path
from typing import Any

import pytest

from scope_agentd.settings import Settings
from scope_cli.configuration.daemons import AGENTD, SERVER
from scope_cli.configuration.resolve import load, resolve
from scope_cli.errors import UsageError


def problems(text: str, tmp_path: Path, **environment: str) -> list[str]:
    """What is wrong with an agent's file, without the file's folder."""
    file = tmp_path / "agentd.toml"
    file.write_text(text)
    return [each.replace(f"{tmp_path}/", "") for each in resolve(AGENTD, file, environment).problems]


def test_a_flag_before_a_variable_before_the_file_before_the_default(tmp_path: Path) -> None:
    """Each source counts before the next; of each value is known where it came from."""
    file = tmp_path / "agentd.toml"
    file.write_text('control = "[::1]:1"\nmetrics = "[::1]:2"\n\nspool_bytes = "2G"\n')
    environment = {"SCOPE_AGENTD_CONTROL": "[::1]:3", "SCOPE_AGENTD_METRICS": "[::1]:4", "SCOPE_AGENTD_STATE_DIR": "/s"}
    found = resolve(AGENTD, file, environment, {"control": "[::1]:5"})
    assert found.problems == found.notes == []
    assert {name: (each.value, each.origin) for name, each in found.values.items()} == {
        "state_dir": (Path("/s"), "SCOPE_AGENTD_STATE_DIR"),
        "server": (None, "default"),
        "control": ("[::1]:5", "--control"),
        "metrics": ("[::1]:4", "SCOPE_AGENTD_METRICS"),
        "spool_bytes": (2 << 30, f"{file}:4"),
        "task_bytes": (None, "default"),
        "exclude_pid": ((), "default"),
        "examine_after_s": (60.0, "default"),
        "examine_with": ("defaults", "default"),
        "stop_deadline_s": (5.0, "default"),
    }


def test_the_daemon_gets_them(tmp_path: Path) -> None:
    """A daemon's settings are made from what was found. An empty variable counts as none."""
    file = tmp_path / "agentd.toml"
    file.write_text("exclude_pid = [7,\n  11]\nstop_deadline_s = 3\n")
    environment = {"SCOPE_AGENTD_STATE_DIR": "/s", "SCOPE_AGENTD_SPOOL_BYTES": ""}
    wanted = Settings(Path("/s"), exclude_pid=(7, 11), stop_deadline_s=3.0)
    assert load(AGENTD, file, environment, {}) == wanted
    assert load(AGENTD, file, environment | {"SCOPE_AGENTD_EXCLUDE_PID": "13,17"}, {}).exclude_pid == (13, 17)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "spol_bytes = 1",
            "agentd has no setting 'spol_bytes' (did you mean 'spool_bytes' or 'task_bytes'?); `scope config sample",
        ),
        ("[agent]\nspool_bytes = 1", "agentd has no setting 'agent'"),
        ("spool_bytes = true", "spool_bytes: true is no number of bytes; write it as 512M or 2G"),
        ("spool_bytes = -1", "spool_bytes: -1 is no number of bytes"),
        ('spool_bytes = "1M"', "spool_bytes: 1048576 is too small; give 16M or more"),
        ("control = 8472", "control: 8472 is no text; put it in quotes"),
        ('metrics = "0.0.0.0:1"', "metrics: '0.0.0.0' is not a loopback address; use"),
        ('state_dir = "state"', "state_dir: 'state' is no absolute path"),
        ("exclude_pid = 7", "exclude_pid: 7 is no list; write it as [12, 345]"),
        ('exclude_pid = ["7"]', "exclude_pid: '7' is no number; leave out the quotes"),
        ('stop_deadline_s = "3"', "stop_deadline_s: '3' is no number; leave out the quotes"),
        ("stop_deadline_s = inf", "stop_deadline_s: Infinity is no number"),
        ("stop_deadline_s = 0", "stop_deadline_s: 0.0 is not above 0"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(line: str, said: str, tmp_path: Path) -> None:
    """A problem names the file, the line, the key and the remedy."""
    other = "control" if line.startswith("metrics") else "metrics"
    (problem,) = problems(f'# agent\n{other} = """\\\n  127.0.0.1:9"""\n\n{line}\n', tmp_path)
    assert problem.startswith(f"agentd.toml:5: {said}")


def test_every_problem_is_told(tmp_path: Path) -> None:
    """All problems are found at once, of all sources; a daemon that is started with them refuses, and tells all."""
    text = "spool_bytes = 1\nnonsense = 2\n"
    environment = {"SCOPE_AGENTD_CONTROL": "x", "SCOPE_AGENTD_STOP_DEADLINE_S": "1.2.3"}
    found = problems(text, tmp_path, **environment)
    assert [each.partition(": ")[0] for each in found] == [
        "agentd.toml:1",
        "agentd.toml:2",
        "SCOPE_AGENTD_CONTROL",
        "SCOPE_AGENTD_STOP_DEADLINE_S",
    ]
    with pytest.raises(UsageError) as told:
        load(AGENTD, tmp_path / "agentd.toml", environment, {})
    assert all(each in str(told.value) for each in found)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"control = \n", "Invalid value (at line 1, column 11); write `key = value`, texts in quotes"),
        (b"control = '\xff'", "is no text in UTF-8"),
    ],
)
def test_a_file_that_is_no_toml_is_told(content: bytes, said: str, tmp_path: Path) -> None:
    """The message names the file and, where it can, the line."""
    file = tmp_path / "agentd.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=str(file)) as told:
        resolve(AGENTD, file, {})
    assert said in str(told.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A file that was named but does not exist is an error; the usual one may be absent."""
    with pytest.raises(UsageError, match="does not exist; `scope config sample agentd` writes one"):
        resolve(AGENTD, tmp_path / "none.toml", {})


def test_what_has_no_default_is_required() -> None:
    """The error names every way to give the value."""
    found = resolve(SERVER, Path("/dev/null"), {})
    assert found.problems == [
        "database is missing; write it into /etc/scope/server.toml, or give --database or SCOPE_SERVER_DATABASE"
    ]


def test_a_connection_string_that_is_none_is_told_without_it() -> None:
    """The message has no part of the connection string, which may contain a password."""
    (problem,) = resolve(SERVER, Path("/dev/null"), {"SCOPE_SERVER_DATABASE": "host=db password=open sesame"}).problems
    assert problem.startswith("SCOPE_SERVER_DATABASE: is not a libpq connection string; write it as ")
    assert "sesame" not in problem


def test_an_unknown_variable_is_a_note() -> None:
    """A misspelt variable is told with the nearest name. It is no error: Kubernetes makes some of its own."""
    given: dict[str, Any] = {"SCOPE_AGENTD_SPOL_BYTES": "1G", "SCOPE_STATE": "/s", "SCOPE_AGENTD": "x"}
    found = resolve(AGENTD, Path("/dev/null"), given)
    assert found.problems == []
    (note,) = found.notes
    assert note.startswith("SCOPE_AGENTD_SPOL_BYTES is the variable of no setting (did you mean 'spool_bytes'")
