"""The view of `scope up` shows every problem, and says when its data is old."""

import threading
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from tests.unit.cli.answers import TASK_ID, a_node, a_stream, a_task
from tests.unit.cli.conftest import STORAGE, Api

from scope_cli.client import Client
from scope_cli.flag import Flag
from scope_cli.overview import Overview

HEALTHY = {"healthy": True, "database": "ok", "ingest": "ok", "agents": 1}
GROUPS = {
    "sched_summary": {"key": {"comm": "spins"}, "values": {"sum(on_cpu_ns)": 47 * 10**9}},
    "sched_process_summary": {"key": {"comm": "waits"}, "values": {"sum(run_queue_ns)": 1_009_000}},
    "syscall_summary": {"key": {"comm": "calls", "name": "read"}, "values": {"count": 160_000}},
}
RUNNING = ("PostgreSQL runs", "server runs", "agentd runs")


@pytest.fixture
def answering(api: Api) -> Api:
    """An API with answers to all requests of the view, except tasks and health."""
    api.answer("GET nodes", {"nodes": [a_node()]})
    for stream in ("sched_summary", "sched_process_summary", "syscall_summary"):
        api.answer(f"GET aggregates/{stream}", {"since": "2026-01-31T12:00:00+00:00", "groups": [GROUPS[stream]]})
    return api


def _view(parts: Sequence[str] = RUNNING) -> Overview:
    return Overview(Client(), "SCOPE records.", lambda: parts)


def _shown(overview: Overview) -> list[str]:
    """The view's lines, as for a terminal with colours."""
    console = Console(file=StringIO(), width=200, force_terminal=True, color_system="standard", legacy_windows=False)
    with console.capture() as capture:
        console.print(overview.render())
    return capture.get().splitlines()


def _line(overview: Overview, part: str) -> str:
    """The only line that contains this text, with its escape sequences."""
    (found,) = [line for line in _shown(overview) if part in line]
    return found


def _asked(api: Api, *tasks: dict[str, Any]) -> Overview:
    api.answer("GET tasks", {"tasks": list(tasks)})
    overview = _view()
    overview.ask()
    return overview


RED, BOLD_RED = "\x1b[31m", "\x1b[1;31m"


def test_all_that_is_recorded_is_shown(answering: Api) -> None:
    """The view shows tasks with their counts, the storage and the busiest programs; nothing is red."""
    answering.answer("GET server", HEALTHY)
    overview = _asked(answering, a_task(streams=[a_stream()]))
    assert "1,009" in _line(overview, TASK_ID[:8])
    assert "storage: 3 GiB of 20 GiB" in _line(overview, "storage")
    (line,) = [line for line in _shown(overview) if "160,000" in line]
    assert line.split() == ["spins", "47", "s", "waits", "1.01", "ms", "calls", "read", "160,000"]
    assert not [line for line in _shown(overview) if RED in line or BOLD_RED in line]


def test_the_busiest_are_asked_of_rollups(answering: Api) -> None:
    """Programs are ranked by the server over all rows of the last minute, and not again at every look."""
    answering.answer("GET server", HEALTHY)
    overview = _asked(answering)
    overview.ask()
    asked = [path.partition("&")[2] for _, path, _ in answering.asked if path.startswith("aggregates")]
    assert asked == [
        "by=comm&cells=sum%28on_cpu_ns%29&top=8",
        "by=comm&cells=sum%28run_queue_ns%29&top=8",
        "by=comm%2Cname&cells=count&top=8",
    ]


@pytest.mark.usefixtures("answering")
def test_a_part_that_ended_is_red() -> None:
    """The line of a part that ended is red; the lines of the others are not."""
    overview = _view(("PostgreSQL runs", "server ended (with status 3), started again in 2 s"))
    assert RED in _line(overview, "server ended")
    assert RED not in _line(overview, "PostgreSQL")


def test_what_the_server_cannot_do_is_said(answering: Api) -> None:
    """The server's reason for not storing is shown, though the server still answers requests."""
    away = "only 100 MiB are free on the database's disk (floor 512 MiB)"
    answering.answer("GET server", {**HEALTHY, "healthy": False, "ingest": away})
    overview = _asked(answering)
    assert BOLD_RED in _line(overview, f"ingest: {away}")


def test_what_is_wrong_with_the_storage_is_said(answering: Api) -> None:
    """A storage problem is shown in the line of the storage."""
    answering.answers["GET storage"] = [(200, {**STORAGE, "problem": "record less, or raise --keep-bytes"})]
    answering.answer("GET server", HEALTHY)
    assert "raise --keep-bytes" in _line(_asked(answering), "storage")


def test_a_server_that_is_away_is_said(answering: Api) -> None:
    """While the server is away, its last answer stays, marked as old; the mark goes when it answers again."""
    answering.answer("GET server", HEALTHY)
    answering.answer("GET tasks", {"tasks": [a_task()]})
    answering.answer("GET tasks", {"title": "no", "detail": "the database is away"}, status=503)
    answering.answer("GET tasks", {"tasks": [a_task()]})
    overview = _view()
    overview.ask()
    overview.ask()
    said = _line(overview, "as it was when the server answered last")
    assert BOLD_RED in said and "the database is away" in said
    assert _line(overview, TASK_ID[:8])
    overview.ask()
    assert not [line for line in _shown(overview) if "answered last" in line]


@pytest.mark.parametrize("nonsense", [{}, {"tasks": [{"task_id": "x"}]}, [], "tasks"])
def test_an_unexpected_answer_does_not_freeze_the_view(
    answering: Api, nonsense: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The view reports an unexpected answer and logs it once; the next good answer removes the report."""
    answering.answer("GET server", HEALTHY)
    answering.answer("GET tasks", nonsense, nonsense, {"tasks": [a_task()]})
    overview, stop = _view(), Flag()
    overview.ask()
    assert BOLD_RED in _line(overview, "unexpected answer")
    thread = threading.Thread(target=overview.keep_asking, args=(stop, 0.01))
    thread.start()
    try:
        _wait(lambda: not any("unexpected answer" in line for line in _shown(overview)))
    finally:
        stop.set()
        thread.join()
    assert caplog.text.count("overview failed") == 1


def _wait(done: Callable[[], bool]) -> None:
    for _ in range(3000):
        if done():
            return
        threading.Event().wait(0.01)
    pytest.fail("the view stayed as it was")
