"""Engines that answer on a socket, in Docker's API: for containers whose files are not where they usually are."""

import http.client
import json
import socket
from pathlib import Path

from scope_bpf.containers.engines.container import Container, labelled
from scope_bpf.containers.engines.files import object_in, text_in

_SOCKETS = ("run/docker.sock", "run/podman/podman.sock")
_TIMEOUT_S = 1.0
_MOST_BYTES = 1 << 20


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(str(self._path))


def find(root: Path, id_: str) -> Container | None:
    """The container with this id; `root` is the file system's."""
    for path in (root / name for name in _SOCKETS):
        if not path.is_socket():
            continue
        connection = _Connection(path)
        try:
            connection.request("GET", f"/containers/{id_}/json")
            answer = connection.getresponse()
            found = json.loads(answer.read(_MOST_BYTES)) if answer.status == http.client.OK else None
        except (OSError, ValueError, http.client.HTTPException):
            continue
        finally:
            connection.close()
        if isinstance(found, dict):
            config = object_in(found, "Config")
            name, image = text_in(found, "Name").removeprefix("/"), text_in(config, "Image")
            return labelled(object_in(config, "Labels"), name, image)
    return None
