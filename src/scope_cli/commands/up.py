"""`scope up`: runs PostgreSQL, server and agent on this machine."""

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.configuration.daemons import AGENTD, SERVER
from scope_cli.configuration.flags import add_flags, as_words
from scope_cli.errors import CommandError, Interrupted
from scope_cli.flag import Flag
from scope_cli.installation import state_dir, told_running

if TYPE_CHECKING:
    from scope_cli.accounts import FirstLogin
    from scope_cli.api import TaskWish
    from scope_cli.client import Client
    from scope_cli.stack import Stack
    from scope_cli.voice import Voice

DEFAULT_TASKS: "tuple[TaskWish, ...]" = (
    {"probe": "process"},
    {"probe": "syscalls", "options": {"mode": "summary"}},
    {"probe": "sched", "options": {"mode": "summary", "interval_ms": 5000}},
)
REFRESH_S = 1.0
_ANSWER_S = 5.0
_SERVER_ADDRESSES, _AGENT_ADDRESSES = ("http", "ingest", "enrol"), ("control", "metrics")
_SERVER_LIMITS = ("keep_days", "keep_bytes", "free_floor")
_AGENT_LIMITS = ("spool_bytes", "task_bytes", "examine_after_s", "examine_with")


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "up",
        help="run PostgreSQL, server and agent here, and show what happens",
        description="Runs PostgreSQL, the server and the agent on this machine until Ctrl-C. A part that ends is "
        "started again. Recorded data stays in the state directory. The configuration files and variables of "
        "`scope server` and `scope agentd` do not count here.",
    )
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    add_flags(parser, SERVER, (*_SERVER_ADDRESSES, *_SERVER_LIMITS))
    add_flags(parser, AGENTD, (*_AGENT_ADDRESSES, *_AGENT_LIMITS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Starts all parts, shows their state, and stops them on Ctrl-C or SIGTERM."""
    stop, hurry = Flag(), Flag()
    _end_on_signals(stop, hurry)

    from scope_bpf.errors import NotSupported
    from scope_bpf.host import require_bpf
    from scope_cli import logs
    from scope_cli.stack import Stack
    from scope_cli.voice import Voice

    if stop.is_set():
        raise Interrupted
    try:
        require_bpf()
    except NotSupported as error:
        raise CommandError(str(error)) from None
    state = (arguments.state_dir or state_dir()).absolute()
    given = {name: getattr(arguments, name) for name in (*_SERVER_ADDRESSES, *_AGENT_ADDRESSES)}
    addresses = {name: address for name, address in given.items() if address}
    voice = Voice()
    server, agent = as_words(arguments, SERVER, _SERVER_LIMITS), as_words(arguments, AGENTD, _AGENT_LIMITS)
    with contextlib.ExitStack() as cleanup:
        with voice.in_a_status_line():
            stack = Stack(
                state,
                voice.say,
                addresses,
                server=server,
                agent=agent,
                keep_bytes=arguments.keep_bytes,
                stop=stop,
                hurry=hurry,
            )
            cleanup.enter_context(stack)
            cleanup.enter_context(told_running(state))
            voice.say("starting tasks")
            first = _patiently(partial(_begun, stack.client(_ANSWER_S)), voice.say, stop)
        if first:
            voice.say(f"first login: {first.email}, password {first.password} (shown only now)")
        voice.say(f"console {stack.url}, API {stack.url}/api/v1; database in {state}/postgres")
        if voice.console.is_terminal:
            logs.to_file(state / "up.log")
            _show(voice, stack, first, stop)
        else:
            while not stop.wait(3600):
                pass
        voice.say("ending")


def _end_on_signals(stop: Flag, hurry: Flag) -> None:
    """Sets `stop` on the first Ctrl-C, SIGTERM or end of the terminal, `hurry` on the second."""

    def signalled(*_: object) -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored, for example by nohup
            signal.signal(number, signalled)


def _begun(client: "Client") -> "FirstLogin | None":
    """Starts the default tasks, unless they continue from the last run, and makes the first account."""
    from scope_cli.accounts import first_login

    recording = {task["probe"] for task in client.get_tasks(state="active")["tasks"]}
    for task in DEFAULT_TASKS:
        if task["probe"] not in recording:
            client.start_task(task)
    return first_login(client)


def _patiently(act: Callable[[], "FirstLogin | None"], say: Callable[[str], None], stop: Flag) -> "FirstLogin | None":
    """Retries while the server cannot do it, for example because its database is away or its disk is full."""
    said = ""
    while not stop.is_set():
        try:
            return act()
        except CommandError as error:
            if str(error) != said:
                said = str(error)
                say(f"waiting to start tasks: {said}")
        stop.wait(REFRESH_S)
    raise Interrupted


def _show(voice: "Voice", stack: "Stack", first: "FirstLogin | None", stop: Flag) -> None:
    from rich.live import Live

    from scope_cli.overview import Overview

    headline = f"SCOPE records. Console {stack.url}, process {os.getpid()}"
    if first:
        headline += f". First login {first.email}, password {first.password}"
    overview = Overview(stack.client(_ANSWER_S), headline, lambda: stack.lines)
    # A separate thread asks the server: an answer may take long, but Ctrl-C must work at once.
    threading.Thread(target=overview.keep_asking, args=(stop, REFRESH_S), daemon=True).start()
    with (
        contextlib.suppress(OSError),  # the terminal went away
        voice.in_the_log(),
        Live(overview.render(), console=voice.console, auto_refresh=False, screen=True) as live,
    ):
        while not stop.wait(REFRESH_S):
            live.update(overview.render(), refresh=True)
