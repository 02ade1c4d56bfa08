"""Tasks as a table."""

from typing import Any

from rich.table import Table

from scope_cli.quantities import size


def task_table(tasks: list[dict[str, Any]], rates: dict[tuple[str, str], float] | None = None) -> Table:
    """A line a task and stream: state, events, rate where known, losses by place and reason, cost."""
    table = Table("task", "probe", "state", "stream", box=None, padding=(0, 2, 0, 0))
    for name in ("events", "rate", "stored", "lost", "sent", "CPU"):
        table.add_column(name, justify="right")
    for task in tasks:
        head = [task["task_id"][:8], task["probe"], task["state"]]
        tail = [size(task["sent_bytes"]), f"{(task['cost'] or {}).get('cpu_share', 0):.2%}"]
        streams = task["streams"] or [{"stream": "-", "emitted": 0, "stored": 0, "lost": []}]
        for stream in streams:
            lost = ", ".join(f"{loss['count']:,} {loss['place']}/{loss['reason']}" for loss in stream["lost"])
            rate = (rates or {}).get((task["task_id"], stream["stream"]))
            table.add_row(
                *head,
                stream["stream"],
                f"{stream['emitted']:,}",
                "" if rate is None else f"{rate:,.0f}/s",
                f"{stream['stored']:,}",
                f"[bold red]{lost}[/bold red]" if lost else "none",
                *tail,
            )
            head, tail = ["", "", ""], ["", ""]
        if task.get("error"):
            table.add_row("", "", f"[red]{task['error']}[/red]")
    return table
