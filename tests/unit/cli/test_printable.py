"""What watched programs call themselves and their files never acts on a terminal, and never makes a line of its own."""

import ast
import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from rich.console import Console
from tests.unit.cli.answers import MACHINE, a_node, a_stream, a_task, in_seconds
from tests.unit.cli.conftest import STORAGE, Api
from tests.unit.views.streams import stream

from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import LatestRows, Table
from scope_cli.client import Client
from scope_cli.logs import FieldsFormatter
from scope_cli.overview import Overview
from scope_cli.tail.losses import Losses
from scope_cli.tail.tailing import Tailing
from scope_cli.trace.display import Display
from scope_cli.trace.lines import LinesSink
from scope_cli.trace.ndjson import NdjsonSink
from scope_cli.trace.sink import Sinks
from scope_cli.trace.tables import TableSink, Wanted
from scope_cli.voice import Voice
from scope_views.printable import printable, printable_json
from scope_wire.bus.columns import packed, type_name
from scope_wire.bus.message import Message, packed_schema, unpacked_schema

Scope = Callable[..., tuple[int, str, str]]
SOURCES = Path(__file__).parents[3] / "src" / "scope_cli"
# A title, a cleared screen, a row of its own, an override of the direction, 8-bit codes, markup of rich, half a pair.
HOSTILE = "\x1b]0;title\x07\x1b[2Jx\nrow\r\u202e\u2066\x9b2J\x90\x85\u2028\x7f[bold red]y[/nope]\ud800"
SHOWN = r"\x1b]0;title\x07\x1b[2Jx\nrow\r\u202e\u2066\x9b2J\x90\x85\u2028\x7f[bold red]y[/nope]\ud800"
TIME = datetime.now(UTC).isoformat()
ROW = {"time": TIME, "hostname": HOSTILE, "machine_id": MACHINE, "comm": HOSTILE, "pid": 7, "start_ns": 1}
EXEC = {**ROW, "filename": HOSTILE, "args": [HOSTILE, "b"], "cwd": HOSTILE, "ret": 0}
MEMORY = {**ROW, "memory": HOSTILE, "device": 0, "ended": False, "live_bytes": 1, "live_count": 1, "unknown_frees": 1}
CERTIFICATE = {"kind": "agent", "name": HOSTILE, "role": "", "hostname": HOSTILE, "expires": TIME, "revoked": None}
REFUSED = {"id": 1, "received": TIME, "hostname": HOSTILE, "run_id": "r", "stream": "exec", "sequence": 1, "events": 1}
ANSWERS: dict[str, Any] = {
    "GET events/exec": {"events": [EXEC, EXEC], "next": None, "more": False, "losses": []},
    "GET states/cuda_live": {"groups": [MEMORY | {"stack": f"main;{HOSTILE}", "mean_age_ns": 1}]},
    "GET states/cuda_memory": {"groups": [MEMORY]},
    "GET states/heap_live": {"groups": [MEMORY | {"stack": HOSTILE, "mean_age_ns": 1, "sample_bytes": 0}]},
    "GET states/heap_memory": {"groups": [MEMORY]},
    "GET nodes": {
        "nodes": [a_node(hostname=HOSTILE, kernel=HOSTILE, conflict={"hostname": HOSTILE, "time": in_seconds(-9)})]
    },
    "GET tasks": {
        "tasks": [
            a_task(probe=HOSTILE, state="failed", reason=HOSTILE, notes=[HOSTILE]),
            a_task(streams=[a_stream(stream=HOSTILE, lost=[{"count": 1, "place": HOSTILE, "reason": HOSTILE}])]),
        ]
    },
    "POST tasks": a_task(state="pending", reason=HOSTILE),
    "GET quarantine": {"quarantine": [REFUSED | {"bytes": 1, "kept": True, "code": "bad", "reason": HOSTILE}]},
    "GET certificates": {"certificates": [CERTIFICATE | {"serial": "1"}]},
}


def harmless(text: str) -> bool:
    """Whether a terminal shows each character and does nothing else than to begin the next line."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def hostile_api(api: Api) -> Api:
    """An API that tells of programs, machines and tasks with hostile names."""
    api.answers["GET storage"] = [(200, {**STORAGE, "problem": HOSTILE})]
    for request, body in ANSWERS.items():
        api.answer(request, body)
    return api


PRINTING = (
    "events exec",
    "events exec --columns args,filename",
    "events exec --follow --limit 1",
    "states cuda_memory",
    "leaks",
    "nodes",
    "tasks",
    "start here process",
    "admin quarantine",
    "admin certificates",
)
AS_JSON = tuple(words for words in PRINTING if "--" not in words and "start" not in words)


@pytest.mark.usefixtures("hostile_api")
def test_rows_of_the_server_are_harmless(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every subcommand that prints rows, hostile texts are shown escaped, within their row."""
    monkeypatch.setenv("COLUMNS", "2000")
    for words in PRINTING:
        status, said, complaints = scope(*words.split())
        assert status == 0
        assert harmless(said) and harmless(complaints), words
        assert SHOWN in said + complaints, words
        assert not [line for line in said.splitlines() if line.lstrip().startswith("row")]


@pytest.mark.usefixtures("hostile_api")
def test_json_is_harmless_and_exact(scope: Scope) -> None:
    """JSON on a terminal has every such character escaped, and means the same."""
    for words in AS_JSON:
        status, said, _ = scope(*words.split(), "--json")
        assert status == 0
        assert harmless(said), words
        told = [json.loads(text) for text in (said.splitlines() if "events" in words else [said])]
        assert HOSTILE in _texts(told), words


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def test_errors_are_one_harmless_line(api: Api, scope: Scope) -> None:
    """What the server or a user's argument says in an error takes one line."""
    api.answer("GET tasks", {"title": "no", "detail": HOSTILE}, status=503)
    assert scope("tasks") == (1, "", f"scope: {SHOWN}\n")
    for words in (["events", "exec", "--since", HOSTILE], ["trace", HOSTILE], ["nonsense" + HOSTILE]):
        status, said, complaint = scope(*words)
        assert (status, said, complaint.count("\n")) == (2, "", 1)
        assert harmless(complaint)


def test_the_view_of_scope_up_is_harmless(hostile_api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """`scope up` shows and tells hostile texts escaped."""
    hostile_api.answer("GET server", {"healthy": False, "database": HOSTILE, "ingest": "ok"})
    values = {"count": 1, "sum(on_cpu_ns)": 5, "sum(run_queue_ns)": 5}
    groups = [{"key": {"comm": HOSTILE, "name": HOSTILE}, "values": values}]
    for name in ("sched_summary", "sched_process_summary", "syscall_summary"):
        hostile_api.answer(f"GET aggregates/{name}", {"since": TIME, "groups": groups})
    overview = Overview(Client(), HOSTILE, lambda: [f"server ended ({HOSTILE})"])
    overview.ask()
    console = Console(file=io.StringIO(), width=300, force_terminal=False)
    with console.capture() as capture:
        console.print(overview.render())
    assert harmless(shown := capture.get())
    assert shown.count(SHOWN) > 5
    Voice().say(HOSTILE)
    assert capsys.readouterr().out == f"{SHOWN}\n"


STREAM = stream(
    {name: Column("") for name in ("comm", "pid", "filename", "args")},
    name="exec",
    shown=Shown((Table(("comm", "filename")), LatestRows(("comm", "filename", "args"))), line=("filename", "args")),
)
REASON = HOSTILE.replace("/", "")  # behind a place
TRACED = HOSTILE.encode(errors="replace").decode()  # Arrow has no half pairs


def _batch(comm: str = TRACED) -> pa.RecordBatch:
    row = {"ktime_ns": 5, "comm": comm, "pid": 7, "filename": comm, "args": [comm, "b"]}
    return pa.RecordBatch.from_pylist([row, row])


@pytest.mark.parametrize("streams", [["exec"], ["exec", "exit"]])
def test_lines_of_a_trace_are_harmless(streams: list[str]) -> None:
    """`scope trace --lines` prints a line a row, with all streams in one trace, too."""
    file = io.BytesIO()
    sink = LinesSink(file, lambda: {}, streams)
    sink.write(STREAM, _batch())
    sink.close()
    text = file.getvalue().decode()
    assert harmless(text)
    assert text.count("\n") == 2 + (len(streams) == 1)
    assert text.count(printable(TRACED)) == 2 * 3


def test_json_of_a_trace_is_harmless_and_exact() -> None:
    """`scope trace --json` escapes what a terminal would obey; ordinary text of any language stays readable."""
    file = io.BytesIO()
    sink = NdjsonSink(file, lambda: {})
    sink.write(STREAM, _batch())
    sink.write(STREAM, _batch("größe 文"))
    text = file.getvalue().decode()
    assert harmless(text) and "größe 文" in text
    assert [json.loads(line)["args"][0] for line in text.splitlines()] == [TRACED] * 2 + ["größe 文"] * 2


def test_tables_of_a_trace_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of a trace, at its end and while they are redrawn, have a line a row."""
    sink = TableSink([STREAM])
    sink.write(STREAM, _batch())
    display = Display(sink.views, Wanted(), lambda: HOSTILE, is_live=False)
    display.show()
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(display.screen())
    for text in (capsys.readouterr().out, capture.get()):
        assert harmless(text)
        assert r"\x1b]0;" in text and "\nrow" not in text


def test_tailed_rows_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """`scope tail` prints rows of the local bus, and its own remarks, escaped."""
    batch = _batch()
    schema = unpacked_schema(packed_schema([(one.name, type_name(one.type), "") for one in batch.schema]))
    columns = {name: packed(values) for name, values in zip(batch.schema.names, batch.columns, strict=True)}
    message = Message("exec", "t", "r", 1, 1, 0, 2, {REASON: 1}, 0, events=2, columns=columns)

    class OneMessage:
        losses, away = Losses(0), True

        def receive(self, _: float) -> Iterator[tuple[Message, Any]]:
            self.losses.note(message)
            yield message, schema

    file, reader = io.BytesIO(), cast("Any", OneMessage())
    tailing = Tailing(reader, {"exec": STREAM}, Sinks([LinesSink(file, reader.losses.accounts, ["exec"])]), 2)
    tailing.run()
    said = tailing.close()
    assert harmless(file.getvalue().decode()) and harmless(capsys.readouterr().err)
    assert file.getvalue().decode().count("\n") == 3 + 1
    assert REASON in said  # which the command prints as a remark


def test_log_lines_are_harmless() -> None:
    """Messages and fields are escaped in the log. Lines of a traceback are indented, so they pass for no message."""
    file = io.StringIO()
    handler = logging.StreamHandler(file)
    handler.setFormatter(FieldsFormatter("%(levelname)s: %(message)s"))
    log = logging.Logger("some")
    log.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("of %s", HOSTILE, extra={"path": HOSTILE})
    lines = file.getvalue().splitlines()
    assert lines[0] == f"ERROR: of {SHOWN} path={SHOWN}"
    assert lines[1] == "  Traceback (most recent call last):"
    assert {line[:2] for line in lines[1:]} == {"  "}
    assert harmless(file.getvalue())


def test_every_text_goes_through_one_module() -> None:
    """Only `printable` prints, and only `terminal` makes texts and tables of rich."""
    printing, making = [], []
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Name) and node.id == "print":
                printing.append(file.name)
            if isinstance(node, ast.ImportFrom) and node.module in ("rich.text", "rich.table", "rich.markup"):
                making.append(file.name)
    assert {*printing} == {"printable.py"}
    assert {*making} == {"terminal.py"}


@pytest.mark.parametrize("text", ["plain", "größe 文 e\u0301", "[red]"])
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    """Texts of any language are not changed."""
    assert printable(text) == printable_json(text) == text
