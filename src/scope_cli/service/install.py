"""Writes the files of a service, and removes them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from scope_cli.errors import CommandError
from scope_cli.service.files import Service
from scope_cli.service.system import Say, call, explained, is_here, remove, write


def install(service: Service, program: Path, say: Say, prepare: Callable[[Path], None]) -> None:
    """Writes unit, user, directories and configuration. A configuration that exists is left as it is.

    Args:
        program: the `scope` command that the unit runs.
        prepare: called with the state directory; what it writes there becomes the service's.
        say: called with a line for each file.

    Raises:
        CommandError: something cannot be written, or the user cannot be made.
    """
    if not service.root.is_dir():
        raise CommandError(f"--root: {service.root} is not a directory")
    try:
        write(service.sysusers, service.sysusers_text(), 0o644)
        say(f"wrote {service.sysusers}")
        call(["systemd-sysusers", f"--root={service.root}", str(service.sysusers)])
        user, group = _ids(service)
        service.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        prepare(service.state)
        for path in (service.state, *service.state.rglob("*")):
            os.chown(path, user, group, follow_symlinks=False)
        service.state.chmod(0o700)
        say(f"made {service.state}, of user {service.name}")
        if service.config.exists():
            lacks = f", which may lack what you gave: {', '.join(service.chosen)}" if service.chosen else ""
            say(f"kept {service.config}{lacks}")
        else:
            write(service.config, service.config_text(), 0o640, group)
            say(f"wrote {service.config}")
        write(service.unit, service.unit_text(program), 0o644)
        say(f"wrote {service.unit}")
    except OSError as error:
        raise CommandError(explained("write", error)) from None
    _reload(service)


def uninstall(service: Service, purge: bool, say: Say) -> None:
    """Stops the service and removes its unit, and the configuration unless it was edited.

    Args:
        purge: remove the edited configuration, the recorded data and the user as well.
        say: called with a line for each file.

    Raises:
        CommandError: something cannot be removed.
    """
    if is_here(service.root) and service.unit.exists():
        call(["systemctl", "disable", "--now", "--quiet", service.unit.name])
    try:
        for file in (service.unit, service.sysusers):
            remove(file, say)
        if service.config.exists():
            if purge or service.config.read_text() == service.config_text():
                remove(service.config, say)
            else:
                say(f"kept {service.config}, which was edited; --purge removes it")
        if service.config.parent.exists() and not any(service.config.parent.iterdir()):
            service.config.parent.rmdir()
        if service.state.exists():
            if purge or not any(service.state.iterdir()):
                shutil.rmtree(service.state)
                say(f"removed {service.state}")
            else:
                say(f"kept {service.state} and its user {service.name}; --purge removes them")
    except OSError as error:
        raise CommandError(explained("remove", error)) from None
    if not service.state.exists() and _user_line(service):
        call(["userdel", "--prefix", str(service.root), service.name])
        say(f"removed user {service.name}")
    _reload(service)


def _ids(service: Service) -> tuple[int, int]:
    """The numbers of the service's user and group, in its own system."""
    line = _user_line(service)
    if not line:
        raise CommandError(f"systemd-sysusers has made no user {service.name}; see {service.sysusers}")
    user, group = line.split(":")[2:4]
    return int(user), int(group)


def _user_line(service: Service) -> str:
    users = service.root / "etc/passwd"
    lines = users.read_text().splitlines() if users.exists() else []
    return next((line for line in lines if line.startswith(f"{service.name}:")), "")


def _reload(service: Service) -> None:
    if is_here(service.root):
        call(["systemctl", "daemon-reload"])
