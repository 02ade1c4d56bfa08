"""The socket on which programs of this machine annotate: a line an annotation, and a line as the answer to each."""

import asyncio
import logging
import os
import socket
import struct
import time
import uuid
from pathlib import Path

from scope_agentd.annotations.annotation import read_line
from scope_agentd.annotations.outbox import Outbox
from scope_agentd.errors import AnnotationRefused, StateUnusable
from scope_proto.scope.v1 import session_pb2

log = logging.getLogger(__name__)

NAME = "annotate.sock"  # in the state directory
MOST_CONNECTIONS = 64
_LONGEST_LINE = 16 << 10
_PER_S, _BURST = 100.0, 1000.0  # of all programs
_CREDENTIALS = struct.Struct("3i")  # struct ucred in socket(7): pid, uid, gid


class AnnotationSocket:
    """Takes annotations, at a bounded rate, from programs of the agent's own user.

    Attributes:
        taken, refused: number of annotations.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._room, self._filled = _BURST, time.monotonic()
        self._open = 0
        self.taken = self.refused = 0
        self.news = asyncio.Event()  # set when an annotation was taken

    async def listen(self, state_dir: Path) -> asyncio.Server:
        """Listens until the server is closed.

        Raises:
            StateUnusable: the socket cannot be made.
        """
        path = state_dir / NAME
        path.unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(path))
            path.chmod(0o600)
            return await asyncio.start_unix_server(self._serve, sock=made, limit=_LONGEST_LINE)
        except OSError as error:
            made.close()
            raise StateUnusable(f"cannot listen on {path}: {error.strerror or error}") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > MOST_CONNECTIONS:
                writer.write(f"error: {MOST_CONNECTIONS} programs are connected; close some\n".encode())
                return
            who = _who(writer.get_extra_info("socket"))
            while line := await reader.readline():
                writer.write(f"{await self._take(line, *who)}\n".encode())
                await writer.drain()
        except ValueError:
            writer.write(f"error: a line has at most {_LONGEST_LINE} bytes\n".encode())
        except ConnectionError:
            log.debug("a program did not read its answer")
        finally:
            self._open -= 1
            writer.close()

    async def _take(self, line: bytes, pid: int, comm: str) -> str:
        try:
            said = read_line(line)
            self._spend()
            one = session_pb2.Annotation(
                id=uuid.uuid4().bytes,
                utc_ns=time.time_ns(),
                text=said.text,
                labels=said.labels,
                pid=pid,
                comm=comm,
            )
            await asyncio.to_thread(self._outbox.put, one)
        except AnnotationRefused as error:
            self.refused += 1
            return f"error: {error}"
        self.taken += 1
        self.news.set()
        return "ok"

    def _spend(self) -> None:
        now = time.monotonic()
        self._room = min(_BURST, self._room + (now - self._filled) * _PER_S)
        self._filled = now
        if self._room < 1:
            raise AnnotationRefused(f"more than {_PER_S:g} annotations a second; say less")
        self._room -= 1


def _who(connection: socket.socket) -> tuple[int, str]:
    """The pid and the name of the program at the other end; 0 and empty if it has ended."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, _, _ = _CREDENTIALS.unpack(raw)
    try:
        comm = os.fsdecode(Path(f"/proc/{pid}/comm").read_bytes()).removesuffix("\n")
    except OSError:
        return 0, ""
    return pid, comm.encode(errors="replace").decode().replace("\0", "")
