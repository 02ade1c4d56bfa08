"""`scope leaks`: unfreed CUDA memory, by the stack that allocated it."""

import argparse
import json
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "leaks",
        help="show unfreed CUDA memory, by the stack that allocated it",
        epilog="Shows only memory that was allocated while a `cuda` task ran.",
    )
    parser.add_argument("--pid", type=int, metavar="N", help="only this process")
    parser.add_argument("--node", metavar="NODE", help="only this machine: its hostname or id")
    parser.add_argument("--hours", type=int, metavar="H", help="only memory seen in the last H hours (default: 24)")
    parser.add_argument("--limit", type=int, metavar="N", help="show at most N stacks, the largest first")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a block for each stack: how much memory, then the call stack, innermost frame first."""
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
        console.print("no unfreed CUDA memory recorded")
    for one in told["unknown_frees"]:
        frees = f"{one['unknown_frees']:,} free{'s' if one['unknown_frees'] > 1 else ''}"
        console.print(
            f"{one['comm']} ({one['pid']}): {frees} of memory allocated before the task began; it may hold more"
        )


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
