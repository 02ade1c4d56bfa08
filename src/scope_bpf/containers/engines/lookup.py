"""Asks all engines."""

import re
from pathlib import Path

from scope_bpf.containers.engines import bundles, docker, podman, runtimes, sockets
from scope_bpf.containers.engines.container import Container

_ID = re.compile(r"[0-9a-f]{64}")


def find(root: Path, id_: str, user: str = "") -> Container | None:
    """What an engine says of a container; None: no engine knows it (any more, or yet).

    Args:
        root: of the file system.
        id_: as in `paths.Named`.
        user: the same.
    """
    if not _ID.fullmatch(id_):
        return runtimes.find(root, id_, user)
    return docker.find(root, id_) or bundles.find(root, id_) or podman.find(root, id_, user) or sockets.find(root, id_)
