"""Tasks as the API shows them, with their runs and event counts."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC
from typing import Any

from scope_server.api.output import plain
from scope_server.store.reading.database import Database

MOST_RUNS = 20  # newest runs shown per task
MOST_GAPS = 3  # newest times without a run
_AWAY = "the agent is not connected"
_COMING = "its agent has not started it yet: a few tasks start at a time"
_WHY = {"shutdown": "its agent was stopped", "killed": "its agent was killed", "failure": "its run had failed"}


async def shown(database: Database, rows: Sequence[dict[str, Any]], connected: Collection[str]) -> list[dict[str, Any]]:
    """Tasks from the rows of the query `tasks`.

    Args:
        connected: ids of connected machines.

    Raises:
        StoreUnavailable: the database cannot be reached.
    """
    ids = [row["task_id"] for row in rows]
    runs: dict[str, list[dict[str, Any]]] = {task_id: [] for task_id in ids}
    streams: dict[str, dict[str, dict[str, Any]]] = {task_id: {} for task_id in ids}
    for run in await database.fetch("task_runs", {"task_ids": ids, "most": MOST_RUNS}):
        runs[run.pop("task_id")].append(plain(run))
    gaps: dict[str, list[str]] = {task_id: [] for task_id in ids}
    for gap in await database.fetch("task_gaps", {"task_ids": ids, "most": MOST_GAPS}):
        gaps[gap["task_id"]].append(_gap_note(gap))
        if len(gaps[gap["task_id"]]) == MOST_GAPS < gap["gaps"]:
            gaps[gap["task_id"]].append(f"not recorded at {gap['gaps'] - MOST_GAPS} earlier times, see scope.gaps")
    for books in await database.fetch("task_books", {"task_ids": ids}):
        of_task = streams[books.pop("task_id")]
        of_task[books["stream"]] = {**plain(books), "lost": []}
    for loss in await database.fetch("task_losses", {"task_ids": ids}):
        stream = streams[loss.pop("task_id")].get(loss.pop("stream"))
        if stream:
            stream["lost"].append(plain(loss))
    return [
        _shown(row, row["node"] in connected, runs[row["task_id"]], list(streams[row["task_id"]].values()))
        | {"notes": [*gaps[row["task_id"]], *row["notes"]]}
        for row in rows
    ]


def _gap_note(gap: Mapping[str, Any]) -> str:
    since, until = (gap[name] and f"{gap[name].astimezone(UTC):%Y-%m-%d %H:%M:%S}" for name in ("since", "until"))
    when = f"from {since} to {until}" if until else f"since {since}"
    return f"not recorded {when} UTC: {_WHY[gap['reason']]}"


def _shown(
    row: dict[str, Any], connected: bool, runs: list[dict[str, Any]], streams: list[dict[str, Any]]
) -> dict[str, Any]:
    definition = row["definition"]
    task = plain({name: value for name, value in row.items() if name not in ("id", "definition", "active")})
    duration = definition.get("duration")
    task |= {
        "target": definition.get("target", {}),
        "options": definition.get("options", {}),
        "duration": float(duration.removesuffix("s")) if duration else None,
    }
    if not connected and row["state"] == "pending":
        task["reason"] = row["reason"] or _AWAY
    elif row["state"] == "pending" and not row["reason"]:
        task["reason"] = _COMING
    elif not connected and row["state"] == "stopping":
        task["reason"] = f"{_AWAY}; it gets the task when it connects"
    return {**task, "streams": streams, "runs": runs}
