"""Files that commands keep for their user, mode 0600, in JSON."""

import json
import os
from pathlib import Path

from scope_cli.errors import CommandError


def kept_file(name: str) -> Path:
    """Where a file is, or would be."""
    configuration = os.environ.get("XDG_CONFIG_HOME")
    return Path(configuration or Path.home() / ".config") / "scope" / name


def keep(name: str, content: object) -> None:
    """Writes a file, whole or not at all.

    Raises:
        CommandError: it cannot be written.
    """
    file = kept_file(name)
    fresh = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(content, out)
        fresh.replace(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
