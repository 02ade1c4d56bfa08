"""`scope leaks`: CUDA memory that is not freed, by the stack that allocated it."""

import argparse
import json
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "leaks",
        help="CUDA memory that is not freed, by stack",
        epilog="Needs a `cuda` task that ran when the memory was allocated.",
    )
    parser.add_argument("--pid", type=int, metavar="N", help="of this process only")
    parser.add_argument("--node", metavar="NODE", help="of this machine only: its hostname or id")
    parser.add_argument("--hours", type=int, metavar="H", help="what was seen in the last H hours (default: 24)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many stacks, the largest first")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a block a stack: what it holds, then who called whom."""
    from rich.console import Console
    from rich.text import Text

    from scope_cli.client import Client

    wanted = {name: getattr(arguments, name) for name in ("pid", "node", "hours", "limit")}
    told = Client().get("leaks", **wanted)
    leaks = told["leaks"]
    if arguments.json:
        print(json.dumps(leaks, indent=2))
        return
    console = Console()
    for leak in leaks:
        console.print(Text(_headline(leak), "bold"))
        for frame in reversed((leak["stack"] or "(stack not known)").split(";")):
            console.print(Text(f"    {frame}"), soft_wrap=True)
    if not leaks:
        console.print("nothing is held that a cuda task has seen allocated")
    for one in told["unknown_frees"]:
        frees = f"{one['unknown_frees']:,} free{'s' if one['unknown_frees'] > 1 else ''}"
        console.print(f"{one['comm']} ({one['pid']}): {frees} of memory from before it was watched; it may hold more")


def _headline(leak: dict[str, Any]) -> str:
    from scope_cli.quantities import quantity

    age = "" if leak["mean_age_ns"] is None else f", {quantity(leak['mean_age_ns'], 'ns')} old on average"
    ended = ", freed by the end of the process" if leak["ended"] else _as_of(leak["time"])
    device = "" if leak["device"] is None else f" of device {leak['device']}"
    held = f"{quantity(leak['live_bytes'], 'bytes')} {leak['memory']}{device} in {leak['live_count']:,} allocations"
    return f"{leak['comm']} ({leak['pid']}): {held}{age}{ended}"


def _as_of(time: str) -> str:
    """When it was so, if nobody looks any more: states are told again every minute while a task runs."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromisoformat(time)
    return "" if datetime.now(UTC) - moment < timedelta(minutes=3) else f", as of {moment:%Y-%m-%d %H:%M:%S} UTC"
