"""What servers gave at earlier logins: it shows them that this user is no stranger. It outlives a logout."""

import json

from scope_cli.kept import keep, kept_file

_FILE = "devices.json"


def device_at(url: str, email: str) -> str:
    """What a server gave at the last login of an account; empty: nothing, or it cannot be read."""
    return _kept().get(_key(url, email), "")


def keep_device(url: str, email: str, device: str) -> None:
    """Keeps what a server gave at a login.

    Raises:
        CommandError: it cannot be written.
    """
    keep(_FILE, _kept() | {_key(url, email): device})


def _kept() -> dict[str, str]:
    try:
        found = json.loads(kept_file(_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _key(url: str, email: str) -> str:
    return f"{email.lower()} {url}"
