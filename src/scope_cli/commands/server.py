"""`scope server`: the server."""

import argparse
import asyncio
import os
import sys
from contextlib import nullcontext
from typing import Any

from scope_cli.configuration.daemons import SERVER
from scope_cli.configuration.flags import add_config_flag, add_flags, given
from scope_cli.installation import tell_url, url_of
from scope_cli.service.notify import Notifier

# How long a thread may keep the interpreter while another wants it. Each call into Arrow gives it up, so with Python's
# 5 ms a writer waits for the event loop several times a batch: at 200,000 events/s rows come twice as late.
_SWITCH_S = 0.0005
# Arrow reads this when it is imported. jemalloc gives memory back within 2 s after a thread has freed it; what mimalloc
# keeps for each thread would double what a server takes that was busy once.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("server", help="run the server: stores what agents send, answers the API")
    add_config_flag(parser, SERVER)
    add_flags(parser, SERVER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs until SIGINT or SIGTERM."""
    from scope_wire.refused.handshakes import count_failed, have_them_told

    told = have_them_told()
    os.environ.update(MEMORY | os.environ)

    from scope_cli.daemon import imported_for_good, run_until_signalled

    with imported_for_good():
        from scope_cli.configuration.resolve import load
        from scope_server.app import serve
        from scope_server.errors import ScopeServerError
        from scope_wire.endpoint import Endpoint
        from scope_wire.refused.refusals import Refusals

    settings = load(SERVER, arguments.config, os.environ, given(arguments, SERVER))
    sys.setswitchinterval(_SWITCH_S)

    async def run_server(stop: asyncio.Event, notifier: Notifier) -> None:
        def listens(http: str, *_: str) -> None:
            tell_url(settings.state_dir, url_of(Endpoint.parse(http, "http")), settings.socket)
            notifier.waiting("the database")

        refusals = Refusals()
        with count_failed(refusals) if told else nullcontext():
            await serve(settings, stop, listens, notifier.ready, refusals)

    run_until_signalled(run_server, ScopeServerError)
