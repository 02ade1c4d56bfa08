"""Tasks as the API shows them, with their runs and event counts."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from scope_server.api.context import DATABASE, FLEET, SESSIONS
from scope_server.api.resources.events import Loss
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Option
from scope_server.store.reading.database import Database

MOST_TASKS = 1000
MOST_RUNS = 20  # newest runs shown per task
MOST_GAPS = 3  # newest times without a run
_AWAY = "the agent is not connected"
_TOO_OLD = "its agent is older than tasks with a filter: update it, or start the task without `where`"
_COMING = "its agent has not started it yet: a few tasks start at a time"
_WHY = {"shutdown": "its agent was stopped", "killed": "its agent was killed", "failure": "its run had failed"}


class Cost(Answer):
    """What a task's BPF programs cost, by the kernel's statistics."""

    cpu_share: float = Field(description="of one CPU")
    ns_per_run: float
    runs_per_second: float


class Run(Answer):
    """An execution of a task in one life of its agent."""

    run_id: str
    state: Literal["starting", "running", "stopping", "stopped", "failed"]
    end: Literal["request", "lease", "failure", "shutdown", "killed"] | None
    error: str | None
    attach_point: str | None
    started: datetime | None
    ended: datetime | None
    sent_bytes: int
    cost: Cost | None
    notes: list[str]


class Books(Answer):
    """Event counts of a stream: emitted = stored + lost + left out + under way."""

    stream: str
    emitted: int
    stored: int
    left_out: int = Field(description="rows that the task's filter did not take")
    under_way: int
    lost: list[Loss] = Field([])


class Task(Answer):
    """A task."""

    task_id: str
    group_id: str | None = Field(description="what tasks have in common that were started together")
    node: str = Field(description="the machine's id")
    hostname: str
    origin: Literal["server", "agent"] = Field(description="agent: it was started on the machine itself")
    probe: str
    wanted: bool
    state: Literal["pending", "starting", "running", "stopping", "stopped", "failed"]
    reason: str | None = Field(description="why it does not record")
    error: str | None = Field(description="of the last run")
    next_try: datetime | None
    deadline: datetime | None
    created: datetime
    started_by: str | None
    stopped_by: str | None
    cost: Cost | None
    sent_bytes: int
    notes: list[str]
    target: dict[str, int | str]
    options: dict[str, Option]
    where: str | None = Field(description="a filter on the rows; null: all rows are recorded")
    duration: float | None = Field(description="in seconds")
    streams: list[Books]
    runs: list[Run] = Field(description="the newest first")


async def tasks_where(
    call: Call, *, task_id: str | None = None, group: str | None = None, state: str | None = None
) -> list[Task]:
    """Tasks, the newest first: all, or those with this id, group or state.

    Raises:
        StoreUnavailable: the database cannot be reached.
    """
    where = {"task_id": task_id, "group": group, "state": state, "most": MOST_TASKS}
    rows = await call[DATABASE].fetch("tasks", where)
    connected = await call[FLEET].directory.connected()
    # Only the server that holds a session knows this.
    old = {session.machine.machine_id for session in call[SESSIONS].all() if not session.takes_where}
    return await _with_runs(call[DATABASE], rows, connected, old)


async def _with_runs(
    database: Database, rows: Sequence[dict[str, Any]], connected: Collection[str], old: Collection[str]
) -> list[Task]:
    ids = [row["task_id"] for row in rows]
    runs: dict[str, list[Run]] = {task_id: [] for task_id in ids}
    streams: dict[str, dict[str, Books]] = {task_id: {} for task_id in ids}
    for run in await database.fetch("task_runs", {"task_ids": ids, "most": MOST_RUNS}):
        runs[run["task_id"]].append(Run(**run))
    for books in await database.fetch("task_books", {"task_ids": ids}):
        streams[books["task_id"]][books["stream"]] = Books(**books)
    for loss in await database.fetch("task_losses", {"task_ids": ids}):
        if stream := streams[loss["task_id"]].get(loss["stream"]):
            stream.lost.append(Loss(**loss))
    gaps = await _gap_notes(database, ids)
    return [
        _shown(row, row["node"] in connected, row["node"] in old, gaps[row["task_id"]]).model_copy(
            update={"runs": runs[row["task_id"]], "streams": list(streams[row["task_id"]].values())}
        )
        for row in rows
    ]


async def _gap_notes(database: Database, ids: Sequence[str]) -> dict[str, list[str]]:
    notes: dict[str, list[str]] = {task_id: [] for task_id in ids}
    for gap in await database.fetch("task_gaps", {"task_ids": ids, "most": MOST_GAPS}):
        of_task = notes[gap["task_id"]]
        of_task.append(_gap_note(gap))
        if len(of_task) == MOST_GAPS < gap["gaps"]:
            of_task.append(f"not recorded at {gap['gaps'] - MOST_GAPS} earlier times, see scope.gaps")
    return notes


def _gap_note(gap: Mapping[str, Any]) -> str:
    since, until = (gap[name] and f"{gap[name].astimezone(UTC):%Y-%m-%d %H:%M:%S}" for name in ("since", "until"))
    when = f"from {since} to {until}" if until else f"since {since}"
    return f"not recorded {when} UTC: {_WHY[gap['reason']]}"


def _shown(row: Mapping[str, Any], connected: bool, old: bool, gaps: list[str]) -> Task:
    definition = row["definition"]
    where = definition.get("where")
    duration = definition.get("duration")
    reason = row["reason"]
    if row["state"] == "pending":
        if where and old:
            reason = _TOO_OLD
        reason = reason or (_COMING if connected else _AWAY)
    elif not connected and row["state"] == "stopping":
        reason = f"{_AWAY}; it stops the task when it connects"
    return Task(
        **{**row, "reason": reason, "notes": [*gaps, *row["notes"]]},
        target=definition.get("target", {}),
        options=definition.get("options", {}),
        where=where,
        duration=float(duration.removesuffix("s")) if duration else None,
        streams=[],
        runs=[],
    )
