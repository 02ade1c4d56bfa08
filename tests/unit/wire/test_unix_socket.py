"""Unix sockets: who may use them, long paths, and what a killed program leaves."""

import stat
from pathlib import Path

import pytest

from scope_wire.unix_socket import connected, listening


@pytest.mark.parametrize("length", [1, 200], ids=["short", "long"])
def test_a_connection(tmp_path: Path, length: int) -> None:
    """Only the owner may use the socket; its path may be longer than the kernel's limit."""
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    path = folder / "api.sock"
    with listening(path) as server, connected(path, 5) as client:
        there, _ = server.accept()
        client.sendall(b"asked")
        assert there.recv(10) == b"asked"
        there.close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_left_behind_is_replaced(tmp_path: Path) -> None:
    """What is in use is not."""
    path = tmp_path / "api.sock"
    listening(path).close()
    with pytest.raises(OSError, match="refused"):
        connected(path, 5)
    with listening(path), pytest.raises(OSError, match="another program listens there"):
        listening(path)


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    """A file of this name is not deleted."""
    path = tmp_path / "api.sock"
    path.write_text("mine")
    with pytest.raises(OSError):
        listening(path)
    assert path.read_text() == "mine"
