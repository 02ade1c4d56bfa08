"""`python -m bench [NAME ...]`: runs the benchmarks and prints a table of measured values and targets."""

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

NAMES = (
    "command",
    "tracers",
    "steps",
    "cuda",
    "span",
    "python",
    "profile",
    "network",
    "bcc",
    "llama",
    "agent",
    "idle",
    "system",
    "memory",
    "loss_curve",
    "ingest",
    "answers",
    "panels",
    "logins",
    "trace",
    "viewers",
    "console",
    "latency",
    "perfetto",
)
LONG = ("soak", "live_page")  # run only if named
RESULTS = Path(__file__).parent / "results"


def main(chosen: list[str]) -> int:
    """Runs the named benchmarks, or all; status 1 if a target was missed."""
    unknown = [name for name in chosen if name not in (*NAMES, *LONG)]
    if unknown:
        print(f"no benchmark named '{unknown[0]}'; there are: {', '.join((*NAMES, *LONG))}", file=sys.stderr)
        return 2
    table = Table("measured", "figure", "wanted", "", box=None)
    results = []
    console = Console()
    for name in chosen or NAMES:
        with console.status(f"measuring {name}"):
            results += importlib.import_module(f"bench.{name}").run()
    for result in results:
        mark = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: ""}[result.met]
        table.add_row(result.what, result.measured, result.wanted, mark)
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=2))
    return 1 if any(result.met is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
