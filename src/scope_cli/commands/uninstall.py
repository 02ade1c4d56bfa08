"""`scope uninstall`: removes what `scope install` has written."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import DAEMONS, SERVER


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "uninstall",
        help="remove the service of agent or server",
        description="Stops the service and removes what `scope install` has written. Recorded data, its user and an "
        "edited configuration file stay, unless --purge is given.",
    )
    parser.add_argument("daemon", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR", help="remove from the system below this directory"
    )
    parser.add_argument("--purge", action="store_true", help="remove recorded data, user and configuration as well")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Removes it, and says what was removed and what was kept."""
    from scope_cli.printable import print_line
    from scope_cli.service.files import Service
    from scope_cli.service.front import Front
    from scope_cli.service.front_install import uninstall_front
    from scope_cli.service.install import uninstall

    root = arguments.root.absolute()
    if arguments.daemon == SERVER.name:
        uninstall_front(Front(root), arguments.purge, print_line)
    uninstall(Service(DAEMONS[arguments.daemon], root), arguments.purge, print_line)
