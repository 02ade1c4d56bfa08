"""The limits of what is stored, as options of `scope up`, `scope agentd` and `scope server`."""

import argparse

from scope_cli.quantities import bytes_of

SERVER_LIMITS = ("keep_days", "keep_bytes", "free_floor")  # as the server's settings name them


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
    """Adds --keep-days, --keep-bytes and --free-floor."""
    parser.add_argument(
        "--keep-days", type=int, metavar="N", help="how many days of recorded data are kept (default: 30)"
    )
    parser.add_argument(
        "--keep-bytes",
        type=bytes_of,
        metavar="N",
        help="disk space for recorded data, such as 50G; beyond it the oldest days are dropped (default: 20%% of the "
        "database's disk, at most 20G)",
    )
    parser.add_argument(
        "--free-floor",
        type=bytes_of,
        metavar="N",
        help="while less is free on the database's disk, nothing is stored and agents keep what they record (default: "
        "512M, or 2%% of the disk if that is more)",
    )


def given_agent_limits(arguments: argparse.Namespace) -> list[str]:
    """The agent's limits that were given, as arguments of `scope agentd`."""
    return [] if arguments.spool_bytes is None else ["--spool-bytes", str(arguments.spool_bytes)]


def given_server_limits(arguments: argparse.Namespace) -> list[str]:
    """The server's limits that were given, as arguments of `scope server`."""
    given = {name: getattr(arguments, name) for name in SERVER_LIMITS}
    return [
        word
        for name, value in given.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
