"""For scripts that run in a booted systemd, see booted.py: commands, services, the journal."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

SCOPE = "/opt/scope/.venv/bin/scope"
PATIENCE_S = 120.0


def run(*words: str) -> str:
    """What a command printed; a RuntimeError, with the journal, if it failed."""
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{words}: {ran.stderr}{ran.stdout}\n{journal()}")
    return ran.stdout


def journal() -> str:
    """The last lines of both services."""
    words = ["journalctl", "--no-pager", "-o", "cat", "-n", "400", "-u", "scope-*"]
    return subprocess.run(words, capture_output=True, text=True).stdout


def shown(service: str, *names: str) -> list[str]:
    """Properties of a service."""
    return [run("systemctl", "show", "--value", "-P", name, service).strip() for name in names]


def until(what: str, condition: Callable[[], Any]) -> Any:
    """The first true answer; a RuntimeError, with the journal, if there is none."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except RuntimeError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"waited in vain for {what}\n{journal()}")
