"""How a command makes this machine a member of a server's fleet."""

import argparse
import logging
import os
from collections.abc import Callable
from pathlib import Path

from scope_cli.errors import CommandError, UsageError
from scope_cli.installation import JOIN_TOKEN

_log = logging.getLogger(__name__)


def add_join_flags(parser: argparse.ArgumentParser) -> None:
    """Adds --join and --token."""
    parser.add_argument(
        "--join", metavar="HOST:PORT", help="become a member of this server first, if this machine is not one already"
    )
    parser.add_argument(
        "--token", metavar="TOKEN", help=f"for --join, from `scope admin join-token`; better in ${JOIN_TOKEN}"
    )


def joining(arguments: argparse.Namespace) -> Callable[[Path], None]:
    """What makes this machine a member as the flags say, given a state directory; raises a CommandError if it fails.

    Raises:
        UsageError: the flags are wrong.
    """
    from scope_agentd.errors import AgentError
    from scope_wire.endpoint import Endpoint
    from scope_wire.errors import InvalidAddress, InvalidJoinToken
    from scope_wire.join_token import JoinToken

    if not arguments.join:
        if arguments.token:
            raise UsageError("--token: needs --join HOST:PORT, the server that made it")
        return lambda _: None
    try:
        Endpoint.parse(arguments.join, "--join")
        token = JoinToken.read(arguments.token or os.environ.get(JOIN_TOKEN, ""))
    except (InvalidAddress, InvalidJoinToken) as error:
        raise UsageError(str(error)) from None

    def join_server(state: Path) -> None:
        import asyncio

        from scope_agentd.identity.join import join
        from scope_agentd.identity.membership import key_file

        try:
            asyncio.run(join(arguments.join, token, state))
        except AgentError as error:
            if not key_file(state).exists():
                raise CommandError(str(error)) from None
            _log.error("could not join again; this machine stays a member as it was", extra={"reason": str(error)})

    return join_server
