"""Arguments and results of syscalls as text, compared with strace's output for the same programs."""

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.probes import strace
from tests.probes.recording import Record, Recording

from scope_bpf.probes.syscalls.quoting import quoted

PYTHON = ["/usr/bin/python3", "-S", "-c"]  # Debian's, which is no wrapper that starts other processes
ALL = {"decode": "all", "data_bytes": strace.DATA_BYTES}

ODD_NAMES = [b"with space", b"it's", b'q"\\<>x>1', b"new\nline\t\a\b\v\f\r7", b"\x019\x7f", b"\xff\xc3\xa4", b"z" * 255]

NETWORK = """
import select, socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
client.sendall(b"hello\\0\\n\\x019")
peer.recv(64)
peer.sendall(b"x" * 1009)
client.recv(2003)
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
poll = select.epoll()
poll.register(client)
poll.poll(0)
peer.shutdown(socket.SHUT_RDWR)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.sendto(b"u", ("127.0.0.1", 9))
local = socket.socket(socket.AF_UNIX)
for address in ("/nonexistent/socket", "\\0abstract"):
    try: local.connect(address)
    except OSError: pass
try: socket.socket(socket.AF_INET6).connect(("::1", 1))
except OSError: pass
one, other = socket.socketpair()
one.send(b"1")
other.recv(5)
"""

FILES = """
import fcntl, mmap, os, signal, sys, time
os.chdir(sys.argv[1])
read, write = os.pipe()
os.dup2(read, 50)
os.dup(write)
fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, 60)
fcntl.fcntl(read, fcntl.F_GETFL)
mmap.mmap(-1, 1 << 16).close()
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
memory = os.memfd_create("name")
os.write(memory, b"z")
os.lseek(memory, 0, os.SEEK_SET)
os.ftruncate(memory, 10)
gone = os.open("gone", os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o640)
os.unlink("gone")
os.write(gone, b"gone")
os.close(gone)
os.mkdir("a", 0o700)
os.rename("a", "b")
os.symlink("to", "b/l")
os.readlink("b/l")
os.unlink("b/l")
directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
os.rmdir("b", dir_fd=directory)
os.access("/tmp", os.R_OK | os.W_OK)
os.utime(".", (1, 1))
os.getcwd()
os.umask(0o22)
os.setpriority(os.PRIO_PROCESS, 0, 0)
time.sleep(0.001)
if os.fork() == 0:
    os._exit(7)
os.wait()
"""


def lines(recording: Recording) -> list[list[strace.Line]]:
    """The recorded calls as strace's lines: one list per thread, threads in the order of their begin.

    Leaves out `uretprobe`: the kernel makes it for a tracer's probe, here for a test beside this one.
    """
    threads = defaultdict(list)
    for row in recording.rows("syscall"):
        if row["name"] != "uretprobe":
            threads[row["tid"]].append(strace.Line(row["name"], tuple(strace.split(row["args"])), row["result"]))
    return [threads[tid] for tid in sorted(threads, key=lambda tid: strace.began_after(recording.pid, tid))]


def compare(record: Record, command: Sequence[str], output: Path) -> None:
    """Runs a command twice, under strace and under the probe, and checks that the lines agree."""
    theirs = strace.straced(command, output)
    ours = lines(record("syscalls", command, **ALL))
    assert len(ours) == len(theirs)
    for their_lines, our_lines in zip(theirs, ours, strict=True):
        assert strace.reaped(our_lines) == strace.reaped(their_lines)
        their_thread, our_thread = strace.without_waiting(their_lines), strace.without_waiting(our_lines)
        assert [line.name for line in our_thread] == [line.name for line in their_thread]
        for their_line, our_line in zip(their_thread, our_thread, strict=True):
            assert strace.agree(their_line, our_line), f"\n{their_line}\n{our_line}"
    assert sum(map(len, ours)) > 20


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    """A tree with files whose names are hard to show."""
    folder = tmp_path / "tree" / 'o<d>d "\\ folder'
    folder.mkdir(parents=True)
    for name in ODD_NAMES:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(name)
    return tmp_path / "tree"


@pytest.mark.parametrize("command", ["find {}", "ls -lR {}", "cat {}/*/*"], ids=lambda command: command.split()[0])
def test_odd_names_are_shown_as_by_strace(record: Record, odd_names: Path, tmp_path: Path, command: str) -> None:
    """Names may have spaces, quotes, brackets, control characters, invalid UTF-8, and the full 255 bytes."""
    compare(record, ["sh", "-c", f"exec {command.format(odd_names)}"], tmp_path / "strace")


def test_git_is_shown_as_by_strace(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git status` in a small repository has the same lines as under strace."""
    monkeypatch.chdir(tmp_path)
    script = (
        "mkdir r && cd r && git init -q && echo one > file && touch -d yesterday file && git add file && "
        "git -c user.name=a -c user.email=a@b commit -qm one && git status && echo two > other"
    )
    subprocess.run(["sh", "-c", script], check=True, stdout=subprocess.DEVNULL)
    compare(record, ["git", "-C", "r", "status"], tmp_path / "strace")


def test_a_script_is_shown_as_by_strace(record: Record, tmp_path: Path) -> None:
    """A shell script has the same lines as under strace: pipes, redirections, several processes, a deadly signal."""
    copy = tmp_path / "copy"
    script = f"echo one | cat; cat < /etc/passwd > {copy}; head -n 1 {copy} 2>&1; rm {copy}; kill -USR1 $$"
    compare(record, ["sh", "-c", script], tmp_path / "strace")


@pytest.mark.parametrize("program", [NETWORK, FILES], ids=["network", "files"])
def test_a_program_is_shown_as_by_strace(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """Socket addresses, files of descriptors, flags, modes, signals and errors are shown as by strace.

    Both runs have the same memory layout, because Python's calls for memory depend on it.
    """
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    (tmp_path / "program.py").write_text(program)
    compare(record, ["setarch", "-R", *PYTHON[:2], str(tmp_path / "program.py"), str(tmp_path)], tmp_path / "strace")


def texts(record: Record, script: str, *names: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of these calls that a Python script makes; alarm(0) marks the script's begin."""
    marked = f"import ctypes, os, signal\ncall = ctypes.CDLL(None).syscall\nsignal.alarm(0)\n{script}"
    rows = record("syscalls", [*PYTHON, marked], **options).rows("syscall")
    begin = next(number for number, row in enumerate(rows) if row["name"] == "alarm")
    return [row for row in rows[begin:] if row["name"] in names]


GUARDED = "try:\n    os.write(os.open('/etc/passwd', 0), b'data')\nexcept OSError: pass"


@pytest.mark.parametrize(
    ("level", "opened", "written", "path"),
    [
        ("none", None, None, None),
        ("registers", ("AT_FDCWD, 0x", ", O_RDONLY|O_CLOEXEC"), (", 0x", ", 4"), None),
        ("paths", ("AT_FDCWD</", '>, "/etc/passwd", O_RDONLY|O_CLOEXEC'), ("</etc/passwd>, 0x", ", 4"), "/etc/passwd"),
        (
            "all",
            ("AT_FDCWD</", '>, "/etc/passwd", O_RDONLY|O_CLOEXEC'),
            ('</etc/passwd>, "data"', ", 4"),
            "/etc/passwd",
        ),
    ],
)
def test_levels_tell_more_and_more(
    record: Record, level: str, opened: tuple[str, str] | None, written: tuple[str, str] | None, path: str | None
) -> None:
    """The levels show nothing; registers; paths and files of descriptors; data. Errors have names at each level."""
    rows = texts(record, GUARDED, "openat", "write", decode=level)
    assert [row["error"] for row in rows] == [None, "EBADF"]
    assert [row["path"] for row in rows] == [path, path]
    for row, told in zip(rows, (opened, written), strict=True):
        assert (row["args"] is None) is (told is None)
        if told:
            assert told[0] in row["args"]
            assert row["args"].endswith(told[1])


def test_what_cannot_be_read_is_a_pointer(record: Record) -> None:
    """Unreadable pointers are shown as addresses, bad descriptors as numbers; other arguments are still shown."""
    script = (
        "call(257, -100, 1, 0)\ncall(257, 12345, b'x', 0)\ncall(1, -1, 16, 5)\ncall(3, 1 << 20)\ncall(3, -2)\n"
        "call(59, 8, 16, 24)\ncall(42, 0, 1, 16)\ncall(82, 0, 0)"
    )
    names = ("openat", "write", "close", "execve", "connect", "rename")
    rows = texts(record, script, *names, **ALL)[: len(script.splitlines())]
    told = [f"{row['name']}({row['args']}) = {row['error']}" for row in rows]
    cwd = f"AT_FDCWD{quoted(bytes(Path.cwd()))}".replace('"', "<", 1).replace('"', ">", 1)
    standing = rows[6]["args"].partition(",")[0]
    assert told == [
        f"openat({cwd}, 0x1, O_RDONLY) = EFAULT",
        'openat(12345, "x", O_RDONLY) = EBADF',
        "write(-1, 0x10, 5) = EBADF",
        "close(1048576) = EBADF",
        "close(-2) = EBADF",
        "execve(0x8, 0x10, 0x18) = EFAULT",
        f"connect({standing}, 0x1, 16) = {rows[6]['error']}",
        "rename(NULL, NULL) = EFAULT",
    ]


FAULTING = """
import mmap
file = os.open(path, os.O_RDWR | os.O_CREAT)
os.write(file, b'/no/such/file'.ljust(4096, b'\\0'))
page = mmap.mmap(file, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
call(257, -100, ctypes.c_void_p(address), 0)
"""


def test_what_is_not_in_memory_yet_is_read_when_the_call_has_brought_it_in(record: Record, tmp_path: Path) -> None:
    """A path in an untouched page, which BPF programs cannot fault in, is read after the call has done so."""
    rows = texts(record, f"path = {str(tmp_path / 'page')!r}{FAULTING}", "openat", decode="paths")
    assert rows[-1]["path"] == "/no/such/file"
    assert '"/no/such/file"' in rows[-1]["args"]


def test_a_path_that_is_no_text_is_shown_by_its_bytes(record: Record) -> None:
    """For a path that is not UTF-8, `args` has strace's escapes, and `path` those of other text columns."""
    (row,) = texts(record, "os.access(b'/\\xff\\n', 0)", "access", decode="paths")
    assert (row["args"], row["path"]) == (r'"/\377\n", F_OK', "/\\xff\n")


def test_a_long_path_and_long_data_are_bounded(record: Record) -> None:
    """Paths are whole up to the kernel's limit; data is cut after `data_bytes` bytes and marked with dots."""
    script = "os.access('/' + 'x/' * 2000, 0)\nr, w = os.pipe()\nos.write(w, b'y' * 5003)"
    access, write = texts(record, script, "access", "write", decode="all", data_bytes=7)
    assert access["args"] == '"/' + "x/" * 2000 + '", F_OK'
    assert write["args"].endswith('"yyyyyyy"..., 5003')
    assert write["result"] == "5003"


def test_what_has_no_room_is_counted(record: Record) -> None:
    """Two paths of nearly 4 KiB each are both read, or the row is counted as incomplete."""
    script = "name = '/' + 'x/' * 2000\ntry: os.rename(name, name)\nexcept OSError: pass"
    recording = record("syscalls", [*PYTHON, f"import os\n{script}"], decode="paths", names="rename")
    (row,) = recording.rows("syscall")
    read = row["args"].count("x/x/")
    assert recording.accounts["syscall"].incomplete == (0 if row["args"].count('"') == 4 else 1)
    assert read


def test_a_32_bit_call_is_not_taken_for_another(record: Record, workload: Callable[[str], str]) -> None:
    """A 32-bit call's number belongs to another table, so no argument is shown."""
    rows = record("syscalls", [workload("calls")], decode="all").rows("syscall")
    foreign = [row for row in rows if row["name"] == "getpid" and row["nr"] == 20]
    assert len(foreign) == 3
    assert {row["args"] for row in foreign} == {None}


def test_numbers_without_a_name_are_registers(record: Record, workload: Callable[[str], str]) -> None:
    """A call with an unknown number is shown as six registers."""
    rows = record("syscalls", [workload("calls")], decode="all").rows("syscall")
    assert {len(row["args"].split(", ")) for row in rows if row["nr"] == 999} == {6}


def test_a_renamed_directory_is_shown_as_it_is_called_then(record: Record, tmp_path: Path) -> None:
    """A descriptor's path is looked up at each call, so it has the names at that time."""
    script = (
        f"os.chdir({str(tmp_path)!r})\nos.mkdir('a')\nd = os.open('a', 0)\nos.fsync(d)\nos.rename('a', 'b')\n"
        "os.fsync(d)\nos.rmdir('b')\nos.fsync(d)"
    )
    told = [row["args"].partition("<")[2] for row in texts(record, script, "fsync", decode="paths")]
    assert told == [f"{tmp_path}/a>", f"{tmp_path}/b>", f"{tmp_path}/b>(deleted)"]


def test_names_of_every_length_are_whole(record: Record, tmp_path: Path) -> None:
    """All names are whole: short ones are copied in words, longer ones by a helper, and the root has no name."""
    names = ["".join(chr(ord("a") + (length + i) % 26) for i in range(length)) for length in (*range(1, 53), 255)]
    script = (
        f"for path in ['/', *({str(tmp_path)!r} + '/' + name for name in {names!r})]:\n"
        "    os.makedirs(path, exist_ok=True)\n    os.fsync(os.open(path, 0))"
    )
    rows = texts(record, script, "fsync", decode="paths")
    assert [row["path"] for row in rows] == ["/", *(f"{tmp_path}/{name}" for name in names)]


def test_the_end_of_a_deep_path_is_told(record: Record, tmp_path: Path) -> None:
    """A path longer than the walk's limit loses the directories nearest to the root, and dots show this."""
    script = (
        f"os.chdir({str(tmp_path)!r})\nfor depth in range(101):\n"
        "    os.mkdir(str(depth))\n    os.chdir(str(depth))\nos.fsync(os.open('.', 0))"
    )
    (row,) = texts(record, script, "fsync", decode="paths")
    told = row["args"].partition("<")[2]
    assert told == ".../" + "/".join(map(str, range(37, 101))) + ">"


def test_the_working_directory_is_that_of_the_call(record: Record, tmp_path: Path) -> None:
    """`path` is absolute, whether a call has a name, a name and a directory, or a descriptor."""
    (tmp_path / "file").touch()
    script = (
        f"os.chdir({str(tmp_path)!r})\nos.stat('file')\nd = os.open('.', 0)\nos.stat('file', dir_fd=d)\n"
        "f = os.open('file', 0)\nos.fstat(f)\nos.access('file', 0)"
    )
    rows = texts(record, script, "newfstatat", "access", decode="paths")
    assert [row["path"] for row in rows] == [f"{tmp_path}/file"] * len(rows)
    assert len(rows) >= 3


def test_threads_do_not_mix_up_what_is_read(record: Record) -> None:
    """A path read in a call is kept with its thread until the call ends."""
    script = (
        "import threading\n"
        "def run(n):\n    for i in range(503):\n        os.access(f'/no/{n}/{i}', n % 4)\n"
        "threads = [threading.Thread(target=run, args=(n,)) for n in range(5)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    rows = texts(record, script, "access", decode="paths")
    assert len(rows) == 5 * 503
    by_thread = defaultdict(list)
    for row in rows:
        by_thread[row["tid"]].append(row["path"])
    assert sorted(by_thread.values()) == [[f"/no/{n}/{i}" for i in range(503)] for n in range(5)]
