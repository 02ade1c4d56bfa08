"""Files that engines write, as JSON. They may be half written, gone, or not readable: then nothing is known."""

import json
import os
import stat
from pathlib import Path
from typing import Any

_MOST_BYTES = 16 << 20
_MOST_BYTES_OF_USERS = 1 << 20  # a user must not fill the agent's memory


def json_of(path: Path) -> dict[str, Any]:
    """The object in a file; empty: there is none."""
    found = _loaded(path)
    return found if isinstance(found, dict) else {}


def list_of(path: Path) -> list[dict[str, Any]]:
    """The objects in a file that has a list of them."""
    found = _loaded(path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def object_in(found: dict[str, Any], name: str) -> dict[str, Any]:
    """An object's member that is an object, too; empty: there is none."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def text_in(found: dict[str, Any], name: str) -> str:
    """An object's member that is a text; empty: there is none."""
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _loaded(path: Path) -> Any:
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)  # opens nothing yet: a pipe must not stop the agent
        try:
            about = os.fstat(found)
            most = _MOST_BYTES_OF_USERS if about.st_uid else _MOST_BYTES
            if stat.S_ISREG(about.st_mode) and about.st_size <= most:
                with Path(f"/proc/self/fd/{found}").open("rb") as file:
                    return json.loads(file.read(most))
        finally:
            os.close(found)
    except (OSError, ValueError, RecursionError):
        pass
    return None
