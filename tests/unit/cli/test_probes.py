"""`scope probes`: the catalogue as text."""

import json
from collections.abc import Callable

import pytest

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
