"""What installing does to a system: files, links, commands."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from scope_cli.errors import CommandError

Say = Callable[[str], None]

_BOOTED = Path("/run/systemd/system")  # sd_booted(3)


def write(path: Path, text: str, mode: int, group: int = 0) -> None:
    """Writes a file at once."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        os.fchown(file.fileno(), 0, group)
        os.fchmod(file.fileno(), mode)
    fresh.replace(path)


def remove(path: Path, say: Say) -> None:
    """Removes a file or link, if it is there."""
    if path.exists() or path.is_symlink():
        path.unlink()
        say(f"removed {path}")


def link(path: Path, target: str, say: Say) -> None:
    """Makes a link, also in place of another."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    say(f"linked {path}")


def is_here(root: Path) -> bool:
    """Whether this is the root of the running system, and systemd runs it."""
    return root == Path("/") and _BOOTED.is_dir()


def explained(deed: str, error: OSError) -> str:
    """The message of an error."""
    remedy = "; run as root" if isinstance(error, PermissionError) else ""
    return f"cannot {deed} {error.filename}: {error.strerror}{remedy}"


def call(command: Sequence[str]) -> None:
    """Runs a command.

    Raises:
        CommandError: it is missing, or failed.
    """
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandError(f"{command[0]} is missing; services need a system with systemd") from None
    if ran.returncode:
        said = "; ".join(ran.stderr.strip().splitlines()) or f"status {ran.returncode}"
        raise CommandError(f"`{' '.join(command)}` failed: {said}")
