"""`scope install`: makes agent or server a service of systemd."""

import argparse
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import AGENTD, DAEMONS
from scope_cli.errors import UsageError
from scope_cli.joining import add_join_flags, joining

_HERE = Path("/")


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser(
        "install",
        help="make agent or server a service of systemd",
        description="Writes the unit, a system user, the state directory and the documented configuration file of a "
        "daemon. A configuration file that exists is left as it is. `scope uninstall` removes all of it again.",
    )
    parser.add_argument("daemon", choices=list(DAEMONS), metavar="DAEMON", help="agentd or server")
    parser.add_argument(
        "--root", type=Path, default=_HERE, metavar="DIR", help="install into the system below this directory"
    )
    add_join_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Installs it, and says what was written and what is to do."""
    from scope_agentd.identity.membership import key_file
    from scope_cli.printable import print_line
    from scope_cli.service.files import Service, own_program, why_hidden
    from scope_cli.service.install import install

    service = Service(DAEMONS[arguments.daemon], arguments.root.absolute())
    program = own_program()
    if arguments.join and service.daemon is not AGENTD:
        raise UsageError("--join: only the agent joins; give it to `scope install agentd`")
    if arguments.join and service.root != _HERE:
        raise UsageError("--join: a machine's key is made on the machine; join there, not below --root")
    install(service, program, print_line, joining(arguments))
    if hidden := why_hidden(program):
        print_line(f"warning: {hidden}")
    if service.daemon is AGENTD and not key_file(service.state).exists():
        print_line("this machine is no member of a fleet: `scope admin join-token` on the server says how to join")
    print_line(f"now look at {service.config}, then run systemctl enable --now {service.name}")
