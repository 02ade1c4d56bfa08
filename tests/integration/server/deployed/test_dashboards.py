"""Each panel of each dashboard asks what the database answers, as the role that Grafana has."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deploy.grafana.generate import FOLDER, dashboards
from deploy.grafana.panels import CONSOLE, Dashboard, Panel, PromQL, Sql
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanasDashboard
from tests.integration.server.deployed.macros import Asked, last
from tests.integration.server.every_stream import tell_every_stream
from tests.integration.server.laid import Laid
from tests.integration.server.records import Line, Run, rows
from tests.integration.server.test_reader_role import make_role

from scope_proto.scope.v1 import task_pb2
from scope_server.store.rollups.packed import HOURS, MINUTES

DASHBOARDS = dashboards()
EVERY = {"machine": ".*", "task": ".*", "comm": "'*'", "container": "'*'"}
RANGES = {"minutes": timedelta(minutes=10), "days": timedelta(days=3), "months": timedelta(days=90)}
# Nothing is deleted, nobody is away, and nothing fails in this store; the panels count it, or show an empty table.
EMPTY = {"Deleted days", "Not recorded"}
# Members that Grafana has, and the model, which is of 10.1, lacks.
NEWER = {"definition", "refId", "format", "rawQuery", "editorMode", "rawSql"}
# Shape of the columns that a panel needs to draw anything.
SHAPES = {"flamegraph": {"level", "value", "self", "label"}, "logs": {"time", "body"}, "piechart": {"name", "value"}}


def _lacking(whole: Any, part: Any, where: str = "") -> list[str]:
    """Where `part` lacks or changes a member of `whole`."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return [one for key in whole for one in _lacking(whole[key], part.get(key), f"{where}/{key}")]
    if isinstance(whole, list) and isinstance(part, list) and len(whole) == len(part):
        return [one for n, (a, b) in enumerate(zip(whole, part, strict=True)) for one in _lacking(a, b, f"{where}/{n}")]
    return [] if whole == part else [where]


@pytest.fixture
async def told(laid: Laid, tmp_path: Path) -> Any:
    """Rows of every stream, however they lie, and a connection of Grafana's role to them."""
    async with laid.line() as line:
        await tell_every_stream(line)
        line.query("UPDATE store.processes SET container_id = 'f00', container = 'it''s' WHERE pid <> 0 RETURNING 1")
        with psycopg.connect(make_role(line.conninfo, tmp_path), autocommit=True) as connection:
            yield line, connection


def _rows(connection: psycopg.Connection[Any], query: str) -> tuple[list[str], list[Any]]:
    cursor = connection.execute(query.encode())
    return [column.name for column in cursor.description or ()], cursor.fetchall()


def _panels(kind: type) -> list[tuple[Dashboard, Panel, Any]]:
    return [
        (dashboard, panel, query)
        for dashboard in DASHBOARDS.values()
        for panel in dashboard.panels
        for query in panel.queries
        if isinstance(query, kind)
    ]


def test_the_files_are_as_generated(tmp_path: Path) -> None:
    """The committed dashboards equal the generated ones; `make dashboards` mends a difference."""
    subprocess.run([sys.executable, "-m", "deploy.grafana.generate", tmp_path], check=True, cwd=Path.cwd())
    made = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_text() for file in FOLDER.glob("*.json")}
    assert len(made) == 7


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_knows_every_member(name: str) -> None:
    """Grafana's own model of a dashboard reads the file and writes each member again; panels do not overlap."""
    text = json.loads((FOLDER / f"{name}.json").read_text())
    written = json.loads(JSONEncoder().encode(GrafanasDashboard.from_json(text)))
    assert {where.rpartition("/")[2] for where in _lacking(text, written)} <= NEWER
    places = [panel["gridPos"] for panel in text["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells)), "panels overlap"


def test_the_original_panels_are_there() -> None:
    """What the first SCOPE showed in Grafana, there is a panel for."""
    titles = {panel.title for _, panel, _ in _panels(object)}
    assert titles >= {
        "Launches by kernel",
        "Launch log",
        "Duration of mul_mat",
        "Duration of synchronizing calls",
        "Log",
        "ggml's allocation log",
        "Log of opened files",
        "Share of opened files",
        "Switches",
        "Share of system calls",
        "Machines",
        "Processors",
    }
    (log,) = [query.text for _, panel, query in _panels(Sql) if panel.title == "Launch log"]
    assert "module AS file" in log and "file_offset" in log


def test_links_lead_to_pages() -> None:
    """Each link to the console leads to a page that it has; each panel of a stream has one."""
    text = "".join(file.read_text() for file in FOLDER.glob("*.json"))
    urls = set(re.findall(r'"url": "([^"]+)"', text))
    pages = set(re.findall(r'path: "(/[^"]*)"', (FOLDER.parents[2] / "web/src/router.tsx").read_text()))
    pages = {re.sub(r"\$\w+", "*", page) for page in pages}
    led = {url.removeprefix(CONSOLE).partition("?")[0] for url in urls if url.startswith(CONSOLE)}
    assert {re.sub(r"^(/\w+/).+", r"\1*", page) for page in led} <= pages
    assert {"/", "/traces", "/flames/profile", "/explore/syscall"} <= led
    boards = {board.uid for board in DASHBOARDS.values()}
    assert {url.partition("?")[0].removeprefix("/d/") for url in urls if not url.startswith(CONSOLE)} <= boards


@pytest.mark.parametrize("length", RANGES)
async def test_every_panel_has_rows(told: tuple[Line, Any], length: str) -> None:
    """Each query of PostgreSQL runs and returns rows in the shape that the panel draws, for any length of time."""
    _, connection = told
    asked = last(RANGES[length], **EVERY)
    wrong = {}
    for dashboard, panel, query in _panels(Sql):
        try:
            problem = _problem(panel, query, *_rows(connection, asked.query(query.text)))
        except psycopg.Error as error:
            problem = str(error)
        if problem:
            wrong[f"{dashboard.title}: {panel.title}"] = problem
    assert wrong == {}


def _problem(panel: Panel, query: Sql, columns: list[str], rows: list[Any]) -> str:
    """What keeps the panel from drawing the rows; empty if nothing does."""
    if lacking := {*SHAPES.get(panel.kind, ()), *panel.links} - set(columns):
        return f"no columns {lacking}"
    if query.series and columns != ["time", "metric", "value"]:
        return f"not a series: {columns}"
    if not any(value is not None for row in rows for value in row[-1:]) and panel.title not in EMPTY:
        return "no rows"
    return ""


async def test_variables_choose(told: tuple[Line, Any]) -> None:
    """The variables' values are found; chosen, they leave only the rows with them; a quote in a name does no harm."""
    line, connection = told
    asked = last(RANGES["minutes"], **EVERY)
    for dashboard in DASHBOARDS.values():
        for variable in dashboard.variables:
            _, rows = _rows(connection, asked.query(variable.query))
            assert rows, f"{dashboard.title}: {variable.name}"
    panels = [query for _, panel, query in _panels(Sql) if panel.title == "Log of system calls"]
    (log,) = panels
    ((task,),) = line.query("SELECT task_id::text FROM scope.tasks")
    chosen = {"machine": [line.machine.machine_id], "task": [task], "comm": ["comm 1", "it's"], "container": ["it's"]}
    columns, rows = _rows(connection, last(RANGES["minutes"], **chosen).query(log.text))
    assert {row[columns.index("comm")] for row in rows} == {"comm 1"}
    for name, value in (("machine", "0" * 32), ("task", str(Run().task_id)), ("comm", "x"), ("container", "f00")):
        other = last(RANGES["minutes"], **(chosen | {name: [value]}))
        assert _rows(connection, other.query(log.text))[1] == []


async def test_a_log_has_the_newest_rows(laid: Laid) -> None:
    """A log shows the newest rows that were chosen, newest first, whether they are seconds or minutes old."""
    (log,) = [query for _, panel, query in _panels(Sql) if panel.title == "Log of system calls"]
    asked = last(RANGES["minutes"], **EVERY)
    ages_ns = [300 * 10**9 * n**3 // 1200**3 for n in range(1, 1201)]
    since_ns = int((asked.until - timedelta(minutes=5)).timestamp()) * 10**9
    of_ages = rows(1200, ktime_ns=[300 * 10**9 - age for age in ages_ns])
    async with laid.line() as line:
        run = Run()
        await line.send(run.start(), run.batch(1, of_ages, boot_to_utc_ns=since_ns))
        for comm in ("'*'", "'one'", "'nobody'"):
            of_comm = f"{comm} IN ('*', comm)"
            newest = line.query(f"SELECT time FROM scope.syscall WHERE {of_comm} ORDER BY time DESC LIMIT 500")
            assert len(newest) == (0 if comm == "'nobody'" else 500)
            told = line.query(replace(asked, values=EVERY | {"comm": comm}).query(log.text).replace("%", "%%"))
            assert [row[:1] for row in told] == newest


async def test_cut_texts_are_marked(told: tuple[Line, Any]) -> None:
    """Dots are before what is left of a path, and after what is left of a list, as in `scope trace`."""
    _, connection = told
    asked = last(RANGES["minutes"], **EVERY)
    paths, folders = ({f"{dots}{name} {n}" for dots in ("", "...") for n in range(3)} for name in ("path", "cwd"))
    shown = {
        ("Log of opened files", "path"): paths,
        ("Share of opened files", "name"): paths,
        ("Loaded models", "path"): paths,
        ("Started programs", "cwd"): folders,
        ("Started programs", "args"): {("a", "b"), ("a", "b", "...")},
    }
    for (title, name), texts in shown.items():
        (query,) = [query for _, panel, query in _panels(Sql) if panel.title == title and not query.series]
        columns, rows = _rows(connection, asked.query(query.text))
        found = [row[columns.index(name)] for row in rows]
        assert {tuple(text) if isinstance(text, list) else text for text in found} == texts, title


async def test_annotations_have_times(told: tuple[Line, Any]) -> None:
    """Tasks, losses, times without a recording and annotations are marked on every dashboard, the last with their
    labels as tags."""
    line, connection = told
    left = Run()
    await line.send(left.start(origin=task_pb2.ORIGIN_AGENT))
    await line.send(left.end({}, end=task_pb2.TASK_END_SHUTDOWN))
    line.query(f"UPDATE store.tasks SET wanted = true WHERE task_id = '{left.task_id}' RETURNING 1")
    asked = last(RANGES["minutes"], **EVERY)
    line.query(
        "INSERT INTO store.annotations (id, time, text, labels) VALUES"
        " (gen_random_uuid(), now() - interval '1 min', 'step 1200', '{\"run\": \"a\", \"epoch\": 3}'),"
        " (gen_random_uuid(), now() - interval '1 day', 'long ago', '{}')"
    )
    for annotation in next(iter(DASHBOARDS.values())).annotations:
        columns, rows = _rows(connection, asked.query(annotation.query))
        assert columns == ["time", "timeend", "text", "tags"]
        assert rows, annotation.name
        if annotation.name == "Gaps":
            assert [row[2] for row in rows] == ["syscalls was not recorded on stand-in: shutdown"]
        if annotation.name == "Annotations":
            assert [row[1:] for row in rows] == [(None, "step 1200", "epoch=3,run=a")]


def test_long_ranges_read_totals_only() -> None:
    """A query reads single rows of the last minutes at most, except of streams with a row a request, line or run."""
    few = ("llama_request", "ollama_request", "ollama_model", "ollama_log")
    for dashboard, panel, query in _panels(Sql):
        for function, since in re.findall(r"scope\.(\w+)\((\w*)", query.text):
            totals = function.endswith(
                (
                    "_minutes",
                    "_hours",
                    "_totals",
                    "_steps",
                    "_distribution",
                    "_buckets",
                    "_now",
                    "_largest",
                    "percentile",
                )
            )
            recent = since == "greatest" and "1000 years" not in query.text
            assert totals or function in few or recent, f"{dashboard.title}: {panel.title}: {function}"


@pytest.mark.parametrize(("title", "at_both_ends"), [("Tokens a second", set()), ("System calls, summary", {MINUTES})])
async def test_long_ranges_skip_the_minutes(told: tuple[Line, Any], title: str, at_both_ends: set[int]) -> None:
    """Beyond days, PostgreSQL runs only the parts of a query that read totals per hour, and minutes at both ends."""
    _, connection = told
    (query,) = [query for _, panel, query in _panels(Sql) if panel.title == title]
    for length, levels in (("minutes", {MINUTES}), ("months", {HOURS} | at_both_ends)):
        asked = last(RANGES[length], **EVERY)
        plan = "\n".join(row[0] for row in _rows(connection, "EXPLAIN (ANALYZE) " + asked.query(query.text))[1])
        assert {*re.findall(r"level = ANY \('{0,(\d)}", plan)} == {*map(str, levels)}, plan


def test_promql_is_valid(tmp_path: Path) -> None:
    """promtool reads each query of Prometheus."""
    asked = last(RANGES["minutes"], **EVERY)
    rules = [
        {"record": f"panel:{number}", "expr": asked.promql(query.text)}
        for number, (_, _, query) in enumerate(_panels(PromQL))
    ]
    assert len(rules) > 20
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    told = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_step_of_grafana() -> None:
    """The stand-in for Grafana makes the steps that Grafana makes."""
    asked = Asked(last(timedelta(hours=1)).until - timedelta(days=10), last(timedelta(hours=1)).until, {})
    assert asked.step_s == 7200
    assert asked.query("$__interval_ms * interval '1 ms'") == "7200000 * interval '1 ms'"
