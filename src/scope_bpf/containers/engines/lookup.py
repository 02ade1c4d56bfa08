"""Asks all engines."""

import re
from pathlib import Path

from scope_bpf.containers.engines import bundles, docker, podman, runtimes, sockets
from scope_bpf.containers.engines.container import Container

_ID = re.compile(r"[0-9a-f]{64}")
_ENGINES = (docker.find, bundles.find, podman.find, sockets.find)


def find(root: Path, id_: str) -> Container | None:
    """What an engine says of a container; None: no engine knows it (any more, or yet).

    Args:
        root: of the file system.
        id_: as in `paths.Named`.
    """
    for engine in _ENGINES if _ID.fullmatch(id_) else (runtimes.find,):
        if found := engine(root, id_):
            return found
    return None
