"""`scope agentd`: the agent."""

import argparse
import asyncio
import os
from contextlib import nullcontext
from typing import Any

from scope_cli.configuration.daemons import AGENTD
from scope_cli.configuration.flags import add_config_flag, add_flags, given
from scope_cli.joining import add_join_flags, joining
from scope_cli.service.notify import Notifier


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("agentd", help="run the agent: records on this machine, sends to a server")
    add_config_flag(parser, AGENTD)
    parser.add_argument(
        "question",
        nargs="?",
        choices=["status"],
        metavar="status",
        help="say whether the agent here is in order, and end",
    )
    add_join_flags(parser)
    add_flags(parser, AGENTD)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs until SIGINT or SIGTERM; or says the agent's status: 0 if it is in order, else 1."""
    if arguments.question:
        from scope_cli.agent_status import print_status

        return print_status(_settings(arguments))
    from scope_bpf.binding.capability import set_aside

    set_aside()  # before other threads start

    from scope_wire.refused.handshakes import count_failed, have_them_told, read_standard_error

    told = have_them_told()

    from scope_cli.daemon import imported_for_good, run_until_signalled

    with imported_for_good():
        from scope_agentd.app import serve
        from scope_agentd.errors import AgentError
        from scope_wire.refused.refusals import Refusals

    settings = _settings(arguments)
    with read_standard_error(lambda *_: None) if told else nullcontext():  # a join that fails says itself why
        joining(arguments)(settings.state_dir)

    async def run_agent(stop: asyncio.Event, notifier: Notifier) -> None:
        refusals = Refusals()
        with count_failed(refusals) if told else nullcontext():
            await serve(settings, stop, lambda _: notifier.ready(), refusals)

    run_until_signalled(run_agent, AgentError)
    return 0


def _settings(arguments: argparse.Namespace) -> Any:
    """The agent's settings."""
    from scope_cli.configuration.resolve import load

    return load(AGENTD, arguments.config, os.environ, given(arguments, AGENTD))
