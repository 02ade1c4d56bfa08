"""Annotates a program's steps through the agent on its machine; see annotations.md."""

import json
import socket


class Annotator:
    """Says texts with labels on the agent's socket. Raises OSError if no agent is there."""

    def __init__(self, path: str = "/var/lib/scope/annotate.sock") -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        self._file = self._connection.makefile("rw")

    def __call__(self, text: str, **labels: object) -> str:
        """Returns the agent's answer: `ok`, or what is wrong."""
        self._file.write(json.dumps({"text": text, "labels": labels}) + "\n")
        self._file.flush()
        return self._file.readline().rstrip()

    def close(self) -> None:
        """Closes the connection."""
        self._file.close()
        self._connection.close()
