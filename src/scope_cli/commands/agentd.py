"""`scope agentd`: the agent."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.errors import CommandError, UsageError
from scope_cli.installation import CONTROL, INGEST, METRICS, state_dir, token_file
from scope_cli.limits import add_agent_limits


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("agentd", help="run the agent: records on this machine, sends to a server")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="default: $SCOPE_STATE or /var/lib/scope")
    parser.add_argument("--server", default=INGEST, metavar="HOST:PORT", help=f"the server (default: {INGEST})")
    parser.add_argument(
        "--control", default=CONTROL, metavar="HOST:PORT", help=f"listen here for grpcurl (default: {CONTROL})"
    )
    parser.add_argument(
        "--metrics", default=METRICS, metavar="HOST:PORT", help=f"listen here for Prometheus (default: {METRICS})"
    )
    parser.add_argument(
        "--exclude-pid",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="never record this process and its descendants; may be repeated",
    )
    add_agent_limits(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_agentd.app import serve
    from scope_agentd.errors import AgentError, InvalidSettings
    from scope_agentd.settings import Settings
    from scope_cli.daemon import run_until_signalled
    from scope_wire.errors import InvalidToken
    from scope_wire.token import read_token

    state = arguments.state_dir or state_dir()
    try:
        read_token(token_file(state))
        settings = Settings(
            state_dir=state,
            token_file=token_file(state),
            server=arguments.server,
            control=arguments.control,
            metrics=arguments.metrics,
            excluded_pids=tuple(arguments.exclude_pid),
            **({} if arguments.spool_bytes is None else {"spool_bytes": arguments.spool_bytes}),
        )
    except InvalidToken as error:
        raise CommandError(str(error)) from None
    except InvalidSettings as error:
        raise UsageError(str(error)) from None
    run_until_signalled(lambda stop: serve(settings, stop), AgentError)
