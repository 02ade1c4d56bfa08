"""What `scope up` needs: its own directory, free addresses, and no processes of an earlier `scope up`."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scope_cli.errors import CommandError, Interrupted, UsageError
from scope_cli.flag import Flag
from scope_cli.stack.left_behind import end_left_behind, mark
from scope_cli.stack.place import owned
from scope_cli.stack.ports import require_free


def test_a_directory_is_made_and_locked(tmp_path: Path) -> None:
    """The directory has mode 0700; a second `scope up` is refused, with the process id of the first."""
    state = tmp_path / "deep" / "state"
    with owned(state):
        assert state.stat().st_mode & 0o777 == 0o700
        with pytest.raises(CommandError, match=rf"is in use by another `scope up` \(process {os.getpid()}\); stop it"):
            owned(state).__enter__()
    with owned(state):
        assert [file.name for file in state.iterdir()] == ["lock"]


def test_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    """A file in place of the directory, or of a parent directory, is refused."""
    (tmp_path / "file").touch()
    for state in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(CommandError, match="it is a file; choose another with --state-dir"):
            owned(state).__enter__()


def test_a_directory_that_others_may_write_to_is_told(tmp_path: Path) -> None:
    """A directory that others may write to is refused: they could put their own token there."""
    tmp_path.chmod(0o777)
    with pytest.raises(CommandError, match=r"other users may write to .*; run `chmod go-w "):
        owned(tmp_path).__enter__()


@pytest.fixture
def listener() -> Iterator[subprocess.Popen[bytes]]:
    """A program that listens and never answers."""
    script = (
        "import socket; open('/proc/self/comm', 'wb').write(b'\\xff\\x1b[2J')\n"
        "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        yield program
        program.kill()


def test_a_taken_address_is_told_with_its_holder(listener: subprocess.Popen[bytes]) -> None:
    """The error names the program that uses the address, even if that program never answers, and has a hostile name."""
    assert listener.stdout
    address = f"127.0.0.1:{int(listener.stdout.readline())}"
    with pytest.raises(CommandError) as told:
        require_free({"http": address}, Flag())
    assert f"{address} is used by another program (pid {listener.pid}, \ufffd\\x1b[2J)" in str(told.value)
    assert str(told.value).endswith("stop it, or choose another with --http")


def test_a_free_address_is_none_of_it() -> None:
    """An address is free even while closed connections linger on it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address), server.accept()[0]:
            pass
    require_free({"http": f"127.0.0.1:{address[1]}"}, Flag())


def test_an_address_of_a_process_that_is_ending_is_waited_for() -> None:
    """If no process holds a used address, its owner is ending: `scope up` waits. Here, a message holds the socket."""
    ends = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        socket.send_fds(ends[0], [b"a listener"], [server.fileno()])
    stop = Flag()
    stop.set()
    with pytest.raises(Interrupted):
        require_free({"http": address}, stop)
    closing = threading.Timer(0.3, lambda: [end.close() for end in ends])
    closing.start()
    require_free({"http": address}, Flag())
    closing.join()


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "192.0.2.1:80", "127.0.0.1:0", "127.0.0.1:99999"])
def test_what_is_no_address_is_wrong_usage(address: str) -> None:
    """The message names the option. The metrics, in plain text, are for loopback only."""
    with pytest.raises(UsageError, match="metrics: "):
        require_free({"metrics": address}, Flag())


def test_what_was_left_behind_is_ended(tmp_path: Path) -> None:
    """Left processes of this state directory are ended, and no others; a message says that `scope up` waits."""
    ours, others = (
        subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark(folder)})
        for folder in (tmp_path, tmp_path / "other")
    )
    said: list[str] = []
    try:
        for one in (ours, others):
            while not Path(f"/proc/{one.pid}/environ").read_bytes():  # empty for a moment after exec
                time.sleep(0.01)
        end_left_behind(tmp_path, said.append, Flag())
        assert ours.wait(60) != 0
        assert said == [f"waiting for processes of an earlier `scope up`: process {ours.pid}"]
        assert others.poll() is None
    finally:
        for one in (ours, others):
            one.kill()
            one.wait()
    end_left_behind(tmp_path, said.append, Flag())
    assert len(said) == 1
