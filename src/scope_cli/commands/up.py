"""`scope up`: everything on this machine."""

import argparse
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.errors import CommandError
from scope_cli.installation import state_dir, token_file

if TYPE_CHECKING:
    from scope_cli.stack import Stack

DEFAULT_TASKS: tuple[dict[str, Any], ...] = (
    {"probe": "process"},
    {"probe": "syscalls", "options": {"mode": "summary"}},
)


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("up", help="run PostgreSQL, server and agent here, and show what happens")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    for name in ("http", "ingest", "control", "metrics"):
        parser.add_argument(f"--{name}", metavar="HOST:PORT", help=f"another address for {name}")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Starts, shows and, on Ctrl-C or SIGTERM, ends everything."""
    from rich.console import Console

    from scope_bpf.errors import NotSupported
    from scope_bpf.host import require_bpf
    from scope_cli.stack import Stack

    try:
        require_bpf()
    except NotSupported as error:
        raise CommandError(str(error)) from None
    state = arguments.state_dir or state_dir()
    given = {name: getattr(arguments, name) for name in ("http", "ingest", "control", "metrics")}
    addresses = {name: address for name, address in given.items() if address}
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with console.status("starting") as status, Stack(state, status.update, addresses) as stack:
            status.update("starting tasks")
            _ensure_tasks(stack)
            status.stop()
            console.print(f"API {stack.url}/api/v1, token in {token_file(state)}; database in {state}/postgres")
            _show(console, stack, state)
            console.print("ending")
    except KeyboardInterrupt:
        console.print("ended before it had started")


def _ensure_tasks(stack: "Stack") -> None:
    """Starts the tasks that are to record from the start, unless they go on from the last time."""
    client = stack.client()
    time.sleep(0.5)  # the server puts back what was wanted as soon as the agent is there
    recording = {task["probe"] for task in client.get("tasks", state="active")["tasks"]}
    for task in DEFAULT_TASKS:
        if task["probe"] not in recording:
            client.post("tasks", body=task)


def _show(console: Any, stack: "Stack", state: Path) -> None:
    from rich.live import Live

    from scope_cli.overview import Overview

    headline = f"SCOPE records. API {stack.url}/api/v1, token in {token_file(state)}, process {os.getpid()}"
    overview = Overview(stack.client(), headline)
    try:
        if not console.is_terminal:
            while True:
                stack.check()
                time.sleep(1)
        with Live(overview.render(), console=console, auto_refresh=False, screen=True) as live:
            while True:
                stack.check()
                live.update(overview.render(), refresh=True)
                time.sleep(1)
    except KeyboardInterrupt:
        return
