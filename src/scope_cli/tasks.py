"""Tasks as a table."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType

from scope_cli.api import Books, Task
from scope_cli.terminal import RowTable, plain
from scope_views.quantities import size

_NOTHING_YET: Books = {"stream": "-", "emitted": 0, "stored": 0, "left_out": 0, "under_way": 0, "lost": []}


def task_table(tasks: Sequence[Task], rates: Mapping[tuple[str, str], float] | None = None) -> RowTable:
    """A line a task and stream: state, events, rate if `rates` has it, what is under way, losses, cost.

    What filters left out is a column if a task has a filter.

    Args:
        tasks: as the API has them.
        rates: events per second by task id and stream.
    """
    table = RowTable("task", "probe", "state", "stream", padding=(0, 2, 0, 0))
    rate = ("rate",) if rates is not None else ()
    left_out = ("left out",) if any(task["where"] for task in tasks) else ()
    for name in ("events", *rate, "stored", *left_out, "under way", "lost", "sent", "CPU"):
        table.add_column(name, justify="right")
    for task in tasks:
        head = [task["task_id"][:8], task["probe"], task["state"]]
        cpu_share = task["cost"]["cpu_share"] if task["cost"] else 0
        tail = [size(task["sent_bytes"] or 0), f"{cpu_share:.2%}"]
        for stream in task["streams"] or [_NOTHING_YET]:
            table.add_row(*head, *_cells(task, stream, rates, bool(left_out)), *tail)
            head, tail = ["", "", ""], ["", ""]
    return table


def task_remarks(task: Task, now: datetime | None = None) -> list[str]:
    """What a user should know of a task: whose it is, why it does not run, when it is tried again."""
    said = []
    if task["origin"] == "agent":
        said.append(f"started on the machine itself{_by(task['started_by'])}")
    if task["stopped_by"]:
        said.append(f"stopped on the machine itself{_by(task['stopped_by'])}")
    reason = task["reason"] or task["error"]
    if reason and task["state"] != "running":
        said.append(f"{reason}{_next_try(task['next_try'], now)}")
    return said


def task_lines(tasks: Sequence[Task]) -> list[RenderableType]:
    """What is to be said below the table, a line each: remarks on tasks, and what tasks may not have seen."""
    return [
        plain(f"{task['task_id'][:8]}  {task['probe']}: {said}", "red" if task["state"] != "running" else "")
        for task in tasks
        for said in (*task_remarks(task), *_filter(task), *task["notes"])
    ]


def _filter(task: Task) -> list[str]:
    return [f"records only rows with {task['where']}"] if task["where"] else []


def _by(person: str | None) -> str:
    return f" by {person}" if person else ""


def _next_try(next_try: str | None, now: datetime | None) -> str:
    if not next_try:
        return ""
    seconds = (datetime.fromisoformat(next_try) - (now or datetime.now(UTC))).total_seconds()
    return f"; next try in {seconds:.0f} s" if seconds > 0 else "; next try now"


def _cells(
    task: Task, stream: Books, rates: Mapping[tuple[str, str], float] | None, filtered: bool
) -> list[RenderableType]:
    lost = ", ".join(f"{loss['count']:,} {loss['place']}/{loss['reason']}" for loss in stream["lost"])
    rate = (rates or {}).get((task["task_id"], stream["stream"]))
    return [
        stream["stream"],
        f"{stream['emitted']:,}",
        *([] if rates is None else ["" if rate is None else f"{rate:,.0f}/s"]),
        f"{stream['stored']:,}",
        *([f"{stream['left_out']:,}"] if filtered else []),
        f"{stream['under_way']:,}",
        plain(lost, "bold red") if lost else "none",
    ]
