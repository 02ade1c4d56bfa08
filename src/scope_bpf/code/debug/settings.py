"""What people set for all clients of debuginfod servers: debuginfod-client-config(7)."""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

_TIMEOUT_S = 90.0
_LARGEST = 2 << 30  # bytes


@dataclass(frozen=True)
class Settings:
    """See debuginfod-client-config(7).

    Attributes:
        urls: the servers, best first; empty: none is asked.
        cache: directory of fetched files.
        timeout_s: how long a server may take for each 100 KiB; None: any time.
        longest_s: how long a file may take; None: any time.
        largest: maximum size of a file in bytes.
    """

    urls: tuple[str, ...]
    cache: Path
    timeout_s: float | None = _TIMEOUT_S
    longest_s: float | None = None
    largest: int = _LARGEST


def settings_of(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment. Servers that are not asked by HTTP or HTTPS are left out."""
    urls = environment.get("DEBUGINFOD_URLS", "").split()
    asked = tuple(url.rstrip("/") for url in urls if url.startswith(("http://", "https://")))
    # "ima:enforcing" and its kind ask for signatures, which only some servers have.
    if left_out := [url for url in urls if url.rstrip("/") not in asked and not url.startswith("ima:")]:
        log.warning("debuginfod servers are asked by HTTP only", extra={"left_out": left_out})
    return Settings(
        asked,
        _cache(environment),
        _positive(environment.get("DEBUGINFOD_TIMEOUT", str(_TIMEOUT_S))),
        _positive(environment.get("DEBUGINFOD_MAXTIME", "")),
        int(_positive(environment.get("DEBUGINFOD_MAXSIZE", "")) or _LARGEST),
    )


def _cache(environment: Mapping[str, str]) -> Path:
    if given := environment.get("DEBUGINFOD_CACHE_PATH"):
        return Path(given)
    home = Path(environment.get("HOME") or "/")
    old = home / ".debuginfod_client_cache"
    if old.is_dir():
        return old
    folder = environment.get("XDG_CACHE_HOME")
    return (Path(folder) if folder else home / ".cache") / "debuginfod_client"


def _positive(text: str) -> float | None:
    """A number of units; None: no limit."""
    with suppress(ValueError):
        return number if (number := float(text)) > 0 else None
    return None
