"""`scope probes`: the catalogue as text."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.cli.conftest import Api

from scope_bpf.probes import probe_named

Run = Callable[..., tuple[int, str, str]]


def test_nothing_is_wrapped_in_a_pipe(scope: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe, each option and column has one line with its whole meaning, so that `grep` finds it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    probe = probe_named("syscalls")
    said = [line.rstrip() for line in scope("probes", "syscalls")[1].splitlines()]
    meanings = [option.meaning for option in probe.options]
    meanings += [column.meaning for stream in probe.public_streams for column in stream.described().values()]
    assert max(map(len, meanings)) > 80
    for meaning in meanings:
        assert any(line.endswith(f" {meaning}") for line in said)


def test_a_terminal_is_kept_within(scope: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider than the terminal: long meanings continue on the next line."""
    monkeypatch.setenv("COLUMNS", "70")
    assert max(map(len, scope("probes", "syscalls")[1].splitlines())) <= 70


def test_types_have_plain_names(scope: Run) -> None:
    """Types have plain names, not Arrow's."""
    syscalls, process = scope("probes", "syscalls")[1], scope("probes", "process")[1]
    assert [line.split()[:3] for line in syscalls.splitlines() if " latency " in line] == [
        ["latency", "histogram", "ns"]
    ]
    assert [line.split()[:2] for line in process.splitlines() if " args " in line] == [["args", "texts"]]
    assert not any(name in syscalls + process for name in ("dictionary<", "list<"))


def test_a_probe_is_explained(scope: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes, limits and examples are shown, as text and as JSON."""
    monkeypatch.delenv("COLUMNS", raising=False)
    guide = probe_named("why").guide
    said, (told,) = " ".join(scope("probes", "why")[1].split()), json.loads(scope("probes", "why", "--json")[1])
    for text in (*guide.notes, *guide.limits, *(each for one in guide.examples for each in (one.command, one.shows))):
        assert text in said
    assert told["limits"] == list(guide.limits)
    assert told["notes"] == list(guide.notes)
    assert told["examples"] == [{"command": one.command, "shows": one.shows} for one in guide.examples]


def test_what_a_machine_can_record_is_said_with_when_it_was_tried(scope: Run, api: Api) -> None:
    """With a machine, its agent's report is shown as `scope doctor` shows it, with its age and whether the agent is
    away; one probe of it if that is named."""
    tried = {"reason": "the best alternative", "no_device": False, "unseen": [], "tried": []}
    syscalls = tried | {"name": "syscalls", "available": True, "attach_point": "tp_btf", "unseen": ["io_uring"]}
    syscalls["tried"] = [{"option": "mode=summary", "reason": ""}, {"option": "decode=all", "reason": "too old\x1b"}]
    gpu = tried | {"name": "gpu", "available": False, "attach_point": "", "reason": "no GPU\x1b", "no_device": True}
    report = {
        "probes": [syscalls, gpu],
        "host": [{"name": "kernel BTF", "available": False, "reason": "cannot be read"}],
        "examined": (datetime.now(UTC) - timedelta(hours=3, minutes=1)).isoformat(),
        "connected": False,
        "current": False,
    }
    api.answer("GET probes", report)
    lines = ["✓ syscalls: tp_btf", "    the best alternative", "    does not record io_uring"]
    lines += ["    ✓ -o mode=summary", "    ✗ -o decode=all: too old\\x1b"]
    status, said, _ = scope("probes", "--node", "there")
    assert (status, said.splitlines()) == (
        0,
        ["tried 3 h ago; the agent is away", "✗ kernel BTF: cannot be read", *lines, "– gpu: no GPU\\x1b"],
    )
    assert api.asked == [("GET", "probes?node=there", None)]
    assert scope("probes", "syscalls", "--node", "there")[1].splitlines()[2:] == lines
    assert json.loads(scope("probes", "gpu", "--node", "there", "--json")[1]) == report | {"probes": [gpu]}
    status, _, complaint = scope("probes", "oracle", "--node", "there")
    assert (status, "no probe 'oracle'" in complaint) == (1, True)
