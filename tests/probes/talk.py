"""A client and a server in one process and thread that say over a connection what they are told to.

usage: talk.py [[WHO, WHAT, HOW], ...]   as JSON

WHO is client or server. WHAT is text, whose bytes the other one reads before anything else is said. HOW is the call
that writes it, or reads it: of the server's words the former, of the client's the latter. Instead of words, `close`,
`shutdown`, `reset`, `answer` and `answer nothing` (which the client does not read), `copy` (of the server's descriptor,
closed at once), `read`, `new` (another connection), `stop` (the process stops itself) and `exit` happen, with HOW `do`.
Prints the port of the server and those of the clients.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile

READ_AT_ONCE = 65536


class Talk:
    """The connection."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._kept: list[socket.socket] = []
        self.connect()

    def connect(self) -> None:
        """Makes the connection, or another one; the one before stays as it is."""
        self.client = socket.create_connection(("127.0.0.1", self.port))
        self.server, peer = self._listening.accept()
        self._kept += [self.client, self.server]
        print(json.dumps({"port": self.port, "peer_port": peer[1]}), flush=True)

    def say(self, who: str, what: str, how: str) -> None:
        """Does one step."""
        if how == "do":
            self.act(who, what)
        elif who == "client":
            self.client.sendall(what.encode("latin1"))
            left = len(what)
            while left:
                left -= read(self.server, how, left)
        else:
            data = what.encode("latin1")
            write(self.server, how, data)
            left = len(data)
            while left:
                left -= len(self.client.recv(left))

    def act(self, who: str, what: str) -> None:
        """Does something else than to say words."""
        end = self.client if who == "client" else self.server
        if what == "close":
            end.close()
        elif what == "shutdown":
            end.shutdown(socket.SHUT_WR)
        elif what == "reset":
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()
        elif what == "copy":
            os.close(os.dup(end.fileno()))
        elif what == "read":
            with contextlib.suppress(ConnectionResetError):
                end.recv(1)
        elif what == "new":
            self.connect()
        elif what.startswith("answer"):
            body = b"" if what.endswith("nothing") else b"hello"
            end.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        elif what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif what == "exit":
            os._exit(0)


def read(end: socket.socket, how: str, most: int) -> int:
    """Reads with a call; returns the number of bytes."""
    if how == "bytes":
        return len(end.recv(1))
    if how == "peek":
        end.recv(0)
        end.recv(most, socket.MSG_PEEK)
    if how == "discard":
        return len(end.recv(most, socket.MSG_TRUNC))
    if how == "read":
        return len(os.read(end.fileno(), most))
    if how == "readv":
        return os.readv(end.fileno(), [bytearray(3), bytearray(0), bytearray(5), bytearray(READ_AT_ONCE)])
    if how == "recvmsg":
        return end.recvmsg_into([bytearray(1), bytearray(2), bytearray(READ_AT_ONCE)])[0]
    return len(end.recv(most))


def write(end: socket.socket, how: str, data: bytes) -> None:
    """Writes with one call, or with one for each byte."""
    if how == "bytes":
        for byte in data:
            end.send(bytes([byte]))
    elif how == "write":
        os.write(end.fileno(), data)
    elif how == "writev":
        os.writev(end.fileno(), [data[:3], b"", data[3:5], data[5:]])
    elif how == "sendmsg":
        end.sendmsg([data[:1], data[1:2], data[2:]])
    elif how == "sendfile":
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            os.sendfile(end.fileno(), file.fileno(), 0, len(data))
    else:
        end.send(data)


def main() -> None:
    """Says what the arguments tell."""
    talk = Talk()
    for who, what, how in json.loads(sys.argv[1]):
        talk.say(who, what, how)


if __name__ == "__main__":
    main()
