"""`scope agentd`: the agent."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.daemon import run_until_signalled
from scope_cli.errors import CommandError, UsageError
from scope_cli.installation import CONTROL, INGEST, METRICS, state_dir, token_file


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("agentd", help="run the agent: records on this machine, sends to a server")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    parser.add_argument("--server", default=INGEST, metavar="HOST:PORT", help=f"where to send to; {INGEST}")
    parser.add_argument("--control", default=CONTROL, metavar="HOST:PORT", help=f"its own gRPC service; {CONTROL}")
    parser.add_argument("--metrics", default=METRICS, metavar="HOST:PORT", help=f"Prometheus metrics; {METRICS}")
    parser.add_argument(
        "--exclude-pid", type=int, action="append", default=[], metavar="N", help="never record this process's family"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_agentd.app import serve
    from scope_agentd.errors import AgentError, InvalidSettings
    from scope_agentd.settings import Settings

    state = arguments.state_dir or state_dir()
    if not token_file(state).exists():
        raise CommandError(f"there is no token at {token_file(state)}; `scope up` or `scope server` makes one")
    try:
        settings = Settings(
            state_dir=state,
            token_file=token_file(state),
            server=arguments.server,
            control=arguments.control,
            metrics=arguments.metrics,
            excluded_pids=tuple(arguments.exclude_pid),
        )
    except InvalidSettings as error:
        raise UsageError(str(error)) from None

    try:
        run_until_signalled(lambda stop: serve(settings, stop))
    except AgentError as error:
        raise CommandError(str(error)) from None
