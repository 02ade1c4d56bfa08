"""`scope agentd`: the agent."""

import argparse
import os
from typing import Any

from scope_cli.configuration.daemons import AGENTD
from scope_cli.configuration.flags import add_config_flag, add_flags, given
from scope_cli.joining import add_join_flags, joining


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("agentd", help="run the agent: records on this machine, sends to a server")
    add_config_flag(parser, AGENTD)
    add_join_flags(parser)
    add_flags(parser, AGENTD)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_bpf.binding.statistics import set_admin_aside

    set_admin_aside()  # before other threads start

    from scope_agentd.app import serve
    from scope_agentd.errors import AgentError
    from scope_cli.configuration.resolve import load
    from scope_cli.daemon import run_until_signalled

    settings = load(AGENTD, arguments.config, os.environ, given(arguments, AGENTD))
    joining(arguments)(settings.state_dir)
    run_until_signalled(lambda stop, notifier: serve(settings, stop, lambda _: notifier.ready()), AgentError)
