"""What is held now, as the server tells it by stream."""

import argparse
from typing import Any

MOST = 1000  # groups that the server tells at once


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say whose states are wanted, how many, and how they are shown."""
    parser.add_argument("--pid", type=int, metavar="N", help="only this process")
    parser.add_argument("--node", metavar="NODE", help="only this machine: its hostname or id")
    parser.add_argument("--hours", type=int, metavar="H", help="only what was seen in the last H hours (default: 24)")
    parser.add_argument("--limit", type=int, metavar="N", help="show at most N, the largest first (default: 100)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def ask(stream: str, arguments: argparse.Namespace, **instead: int) -> list[dict[str, Any]]:
    """The groups of a stream's latest states, as the options say.

    Args:
        instead: what is asked for in place of an option's value.

    Raises:
        CommandError: the server does not answer, or refuses.
    """
    from scope_cli.client import Client

    wanted = {name: getattr(arguments, name) for name in ("pid", "node", "hours", "limit")}
    return Client().get_states(stream, **(wanted | instead))["groups"]
