"""`scope leaks`: unfreed memory of the heap and of CUDA, by the stack that allocated it."""

import argparse
from collections import Counter
from typing import Any

from scope_cli import states

_KINDS = ("cuda", "heap")  # probes whose streams KIND_live and KIND_memory tell what is held


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "leaks",
        help="show unfreed memory of the heap and of CUDA, by the stack that allocated it",
        epilog="Shows only memory that was allocated while a `heap` or `cuda` task ran. Same data as `scope states "
        "heap_live` and `scope states cuda_live`.",
    )
    states.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints a block for each stack: how much memory, then the call stack, innermost frame first."""
    from scope_cli.printable import print_json, print_line
    from scope_cli.terminal import console, plain

    leaks = [{"probe": kind} | leak for kind in _KINDS for leak in states.ask(f"{kind}_live", arguments)]
    if arguments.json:
        print_json(leaks)
        return
    output = console()
    for leak in leaks:
        output.print(plain(_headline(leak), "bold"))
        for frame in reversed((leak["stack"] or "(stack unknown)").split(";")):
            output.print(plain(f"    {frame}"), soft_wrap=True)
    if not leaks:
        output.print("no unfreed memory recorded")
    held = [group for kind in _KINDS for group in states.ask(f"{kind}_memory", arguments, limit=states.MOST)]
    for (_, comm, pid, _), count in _unknown_frees(held):
        frees = f"{count:,} free{'s' if count > 1 else ''}"
        print_line(
            f"{comm} ({pid}): {frees} of memory allocated before the task began; the process may have more of it"
        )


def _unknown_frees(groups: list[dict[str, Any]]) -> list[tuple[tuple[Any, ...], int]]:
    """By process, the largest number first."""
    found: Counter[tuple[Any, ...]] = Counter()
    for group in groups:
        found[group["machine_id"], group["comm"], group["pid"], group["start_ns"]] += group["unknown_frees"]
    return [one for one in found.most_common() if one[1]]


def _headline(leak: dict[str, Any]) -> str:
    from scope_cli.quantities import quantity

    age = "" if leak["mean_age_ns"] is None else f", {quantity(leak['mean_age_ns'], 'ns')} old on average"
    ended = ", freed by the end of the process" if leak["ended"] else _as_of(leak["time"])
    about = "about " if leak.get("sample_bytes") else ""
    device = "" if leak.get("device") is None else f" of device {leak['device']}"
    where = f"{leak.get('memory', leak['probe'])}{device}"
    held = f"{about}{quantity(leak['live_bytes'], 'bytes')} {where} in {about}{leak['live_count']:,} allocations"
    return f"{leak['comm']} ({leak['pid']}): {held}{age}{ended}"


def _as_of(time: str) -> str:
    """The time of the state if no task updates it any more: a running task reports states every minute."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromisoformat(time)
    return "" if datetime.now(UTC) - moment < timedelta(minutes=3) else f", as of {moment:%Y-%m-%d %H:%M:%S} UTC"
