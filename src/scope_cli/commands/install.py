"""`scope install`: makes agent or server a service of systemd."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_cli.configuration.daemons import AGENTD, DAEMONS, SERVER
from scope_cli.configuration.flags import add_flags, given
from scope_cli.configuration.keys import keys
from scope_cli.errors import UsageError
from scope_cli.joining import add_join_flags, joining

if TYPE_CHECKING:
    from scope_cli.service.front import Front

_HERE = Path("/")
# Settings of a server that differ between the servers of fleets.
_CHOSEN = (
    *("database", "database_password_file", "redis", "redis_password_file", "sentinel_password_file"),
    *("advertise", "proxies"),
)
_EVERYWHERE = {"http": "0.0.0.0:8470", "ingest": "0.0.0.0:8471", "enrol": "0.0.0.0:8474"}


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
    fleet = parser.add_argument_group("servers of a fleet", "Settings for a new configuration file, and nginx.")
    add_flags(fleet, SERVER, _CHOSEN)
    fleet.add_argument(
        "--nginx",
        metavar="NAME",
        help="also put Debian's nginx in front of this server and others: people and machines reach it by this name, "
        "on ports 443, 8471 and 8474; this server listens on 9470, 9471 and 9474",
    )
    fleet.add_argument(
        "--server",
        dest="servers",
        action="append",
        metavar="HOST",
        help="a machine with another server, to which nginx distributes, too; may be repeated",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Installs it, and says what was written and what is to do."""
    from scope_agentd.identity.membership import key_file
    from scope_cli.printable import print_line
    from scope_cli.service.files import Service, own_program, why_hidden
    from scope_cli.service.front_install import install_front
    from scope_cli.service.install import install

    daemon, root = DAEMONS[arguments.daemon], arguments.root.absolute()
    if arguments.join and daemon is not AGENTD:
        raise UsageError("--join: only the agent joins; give it to `scope install agentd`")
    if arguments.join and root != _HERE:
        raise UsageError("--join: a machine's key is made on the machine; join there, not below --root")
    front, chosen = _front(arguments, root), _chosen(arguments)
    service = Service(daemon, root, {**chosen, **(front.settings(chosen) if front else {})})
    program = own_program()
    if front:
        front.check()
    install(service, program, print_line, _with_authority if front else joining(arguments))
    if front:
        install_front(front, print_line)
    if hidden := why_hidden(program):
        print_line(f"warning: {hidden}")
    if daemon is AGENTD and not key_file(service.state).exists():
        print_line("this machine is no member of a fleet: `scope admin join-token` on the server says how to join")
    print_line(f"now look at {service.config}, then run systemctl enable --now {service.name}")


def _chosen(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The settings for a new configuration file. A server of a fleet listens for other machines."""
    found = given(arguments, SERVER)
    if found and arguments.daemon != SERVER.name:
        raise UsageError("settings of a server: give them to `scope install server`")
    for name, value in found.items():
        key = keys(SERVER)[name]
        if key.setting.check:
            try:
                key.setting.check(value, key.flag)
            except ValueError as error:
                raise UsageError(str(error)) from None
    return {**(_EVERYWHERE if "redis" in found else {}), **found}


def _front(arguments: argparse.Namespace, root: Path) -> "Front | None":
    from scope_cli.service.front import Front
    from scope_wire.endpoint import host_names
    from scope_wire.errors import InvalidAddress

    if not arguments.nginx:
        if arguments.servers:
            raise UsageError("--server: needs --nginx, which distributes to it")
        return None
    if arguments.daemon != SERVER.name:
        raise UsageError("--nginx: only servers have it in front; give it to `scope install server`")
    others = tuple(arguments.servers or ())
    try:
        host_names((arguments.nginx,), "--nginx")
        host_names(others, "--server")
    except InvalidAddress as error:
        raise UsageError(str(error)) from None
    return Front(root, arguments.nginx, others)


def _with_authority(state: Path) -> None:
    """Makes the authority, by which nginx knows the servers, before one has started."""
    from scope_cli.installation import authority_dir
    from scope_server.identity.authority import Authority

    Authority(authority_dir(state))
