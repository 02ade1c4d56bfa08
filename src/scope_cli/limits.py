"""The limits of what is stored, as options of `scope up`, `scope agentd` and `scope server`."""

import argparse

from scope_cli.quantities import bytes_of


def add_agent_limits(parser: argparse.ArgumentParser) -> None:
    """Adds --spool-bytes."""
    parser.add_argument(
        "--spool-bytes",
        type=bytes_of,
        metavar="N",
        help="disk space for records that wait for the server, such as 512M or 2G; beyond it the oldest are dropped "
        "and counted as lost (default: 1G)",
    )


def add_server_limits(parser: argparse.ArgumentParser) -> None:
    """Adds --keep-days."""
    parser.add_argument(
        "--keep-days", type=int, metavar="N", help="how many days of recorded data are kept (default: 30)"
    )


def given_agent_limits(arguments: argparse.Namespace) -> list[str]:
    """The agent's limits that were given, as arguments of `scope agentd`."""
    return [] if arguments.spool_bytes is None else ["--spool-bytes", str(arguments.spool_bytes)]


def given_server_limits(arguments: argparse.Namespace) -> list[str]:
    """The server's limits that were given, as arguments of `scope server`."""
    return [] if arguments.keep_days is None else ["--keep-days", str(arguments.keep_days)]
