"""What `scope up` shows: tasks with rates, losses and cost; the busiest processes and syscalls."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from scope_cli.client import Client
from scope_cli.quantities import duration
from scope_cli.tasks import task_table

WINDOW_S = 5
SHOWN = 8


class Overview:
    """Asks the API at each `render` and remembers what it needs for rates."""

    def __init__(self, client: Client, headline: str) -> None:
        self._client, self._headline = client, headline
        self._before: dict[tuple[str, str], tuple[float, int]] = {}

    def render(self) -> Group:
        """The view as of now.

        Raises:
            CommandError: the server does not answer.
        """
        tasks = self._client.get("tasks", state="active")["tasks"]
        since = (datetime.now(UTC) - timedelta(seconds=WINDOW_S)).isoformat()
        rows = self._client.get("events", "syscall_summary", since=since, limit=1000)["events"]
        return Group(
            Text(self._headline),
            Text(""),
            task_table(tasks, self._rates(tasks)),
            Text(f"\nbusiest by time in syscalls, last {WINDOW_S} s", "italic"),
            _busiest(rows, ("comm", "pid")),
            Text(""),
            _busiest(rows, ("name",)),
            Text("\nCtrl-C ends everything; what was recorded stays", "dim"),
        )

    def _rates(self, tasks: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
        now, rates = time.monotonic(), {}
        for task in tasks:
            for stream in task["streams"]:
                key = (task["task_id"], stream["stream"])
                moment, emitted = self._before.get(key, (now, stream["emitted"]))
                if now > moment:
                    rates[key] = (stream["emitted"] - emitted) / (now - moment)
                self._before[key] = (now, stream["emitted"])
        return rates


def _busiest(rows: list[dict[str, Any]], by: tuple[str, ...]) -> Table:
    calls: Counter[tuple[str, ...]] = Counter()
    spent: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        key = tuple(str(row[name]) for name in by)
        calls[key] += row["count"]
        spent[key] += row["total_ns"]
    table = Table(*("syscall" if name == "name" else name for name in by), box=None, padding=(0, 2, 0, 0))
    table.add_column("calls", justify="right")
    table.add_column("time", justify="right")
    for key, total in spent.most_common(SHOWN):
        table.add_row(*key, f"{calls[key]:,}", duration(total))
    return table
