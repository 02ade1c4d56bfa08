"""CUDA programs in containers, copied or replaced files, and programs that end during a call."""

import ctypes
import errno
import mmap
import os
import shlex
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.probes.cuda_programs import WORKLOADS, Nvcc, StandIn, toolkit
from tests.probes.recording import Recording

from scope_bpf.binding.mapping_watch import FileId
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.capture.uprobe import Uprobes
from scope_bpf.catalogue.target import Target
from scope_bpf.code.mappings import executable_mappings, open_mapped
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError, NotElf, NotSupported
from scope_bpf.probes import probe_named
from scope_bpf.probes.cuda.functions import FUNCTIONS
from scope_catalogue.options import parse_options

RUNTIME = toolkit() / "lib/libcudart.so.13"
NAMES = {name for function in FUNCTIONS for name in function.symbols}


@dataclass(frozen=True)
class Work:
    """A build of cuda_work.cu: its file, its kernel, and how often and how many bytes its `work` allocates."""

    path: Path
    kernel: str
    times: int
    bytes: int

    @property
    def calls(self) -> Counter[tuple[str, int]]:
        return Counter({("cudaMalloc", self.bytes): self.times})

    def launches(self, path: object = "") -> Counter[tuple[str, str, str]]:
        """The expected launches, by kernel name, file and source of the name."""
        return Counter({(f"{self.kernel}(int*)", str(path or self.path), "registration"): self.times})


@dataclass(frozen=True)
class Works:
    """The same source, built in four ways, each with its own kernel and numbers."""

    static: Work
    shared: Work
    older: Work  # libraries, with the runtime linked in
    newer: Work


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Works:
    nvcc = Nvcc(tmp_path_factory.mktemp("works"))
    library = ("-shared", "-Xcompiler", "-fPIC")

    def build(name: str, kernel: str, times: int, size: int, *flags: str) -> Work:
        numbers = (f"-DKERNEL={kernel}", f"-DTIMES={times}", f"-DBYTES={size}")
        return Work(nvcc.build(name, "cuda_work.cu", *numbers, *flags), kernel, times, size)

    with ThreadPoolExecutor(2) as pool:
        made = (
            pool.submit(build, "static", "first", 101, 307),
            pool.submit(build, "shared", "second", 53, 401, "-cudart", "shared"),
            pool.submit(build, "libolder.so", "older", 17, 211, *library),
            pool.submit(build, "libnewer.so", "newer", 19, 223, *library),
        )
        return Works(*(work.result() for work in made))


@dataclass(frozen=True)
class Gate:
    """The FIFO that is standard input of programs that `wait`; they end when the test closes it."""

    path: Path
    reader: int
    writer: int

    def open(self, programs: int = 1) -> None:
        os.write(self.writer, b"x" * programs)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    path = tmp_path / "gate"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    reader = os.open(path, os.O_RDONLY)
    yield Gate(path, reader, writer)
    os.close(writer)
    os.close(reader)


class Traced:
    """A started tracer and its recording."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.recording = Recording()

    def until(self, true: Callable[[], Any]) -> None:
        """Records until a condition is true."""
        patience = time.monotonic() + 20
        while not true():
            assert time.monotonic() < patience, "it did not come true within 20 s"
            self.poll()

    def poll(self, times: int = 1) -> None:
        for _ in range(times):
            for raw in self.tracer.poll(20):
                self.recording.add(raw)

    def finish(self, left: int = 0) -> None:
        """Records the rest; nothing may be lost except `left` calls, which a jump ended."""
        for raw in self.tracer.finish():
            self.recording.add(raw)
        accounts = self.tracer.accounts()
        lost = {name: account.lost for name, account in accounts.items() if account.lost}
        assert lost == ({"cuda_call": {"left": left}} if left else {})
        for stream in ("cuda_call", "cuda_launch"):
            assert accounts[stream].emitted == len(self.rows(stream)) + sum(accounts[stream].lost.values())

    def rows(self, stream: str) -> list[dict[str, Any]]:
        return self.recording.rows(stream)

    @property
    def calls(self) -> Counter[tuple[str, int]]:
        return Counter((row["function"], row["bytes"]) for row in self.rows("cuda_call"))

    @property
    def launches(self) -> Counter[tuple[str, str, str]]:
        return Counter((row["kernel"], row["module"], row["name_source"]) for row in self.rows("cuda_launch"))

    @property
    def functions(self) -> int:
        return self.tracer.functions_attached


@contextmanager
def tracing(target: Target, command: str = "") -> Iterator[Traced]:
    probe = probe_named("cuda")
    with Tracer(probe, parse_options(probe.options, {}), target, command=command) as tracer:
        tracer.start()
        yield Traced(tracer)


@contextmanager
def tracing_command(*words: object) -> Iterator[tuple[Traced, HeldCommand]]:
    """Starts a command under a tracer; kills the command at the end of the block."""
    command = HeldCommand([str(word) for word in words])
    try:
        with tracing(Target(pid=command.pid), command.path) as traced:
            command.release()
            yield traced, command
    finally:
        if command.poll() is None:
            os.kill(command.pid, signal.SIGKILL)
        command.close()


@contextmanager
def running(gate: Gate, *words: object) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([str(word) for word in words], stdin=gate.reader) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(command: HeldCommand) -> Callable[[], bool]:
    return lambda: command.poll() is not None


def functions_of(*files: Path) -> int:
    """The number of functions in files that the probe attaches to, from nm; names of one address count once."""
    found = 0
    for file in files:
        addresses = set()
        for option in ((), ("-D",)):
            listed = subprocess.run(["nm", "--defined-only", *option, file], capture_output=True, text=True).stdout
            words = [line.split() for line in listed.splitlines()]
            addresses |= {address for address, _, name in words if name.partition("@")[0] in NAMES}
        found += len(addresses)
    return found


def runs(pid: int, path: object) -> bool:
    """Whether a process runs the program at this path, as the process itself sees it."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/exe").readlink()) == str(path)
    return False


def children_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def needed_by(*files: Path) -> list[str]:
    """The libraries that programs need, without the CUDA runtime, and the loader."""
    found = set()
    for file in files:
        listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
        found |= {word for word in listed.split() if word.startswith("/") and "libcudart" not in word}
    return sorted(found)


@dataclass(frozen=True)
class Container:
    """A program and its runtime; outside the container, their paths name other files."""

    program: Path
    script: Path  # run in new namespaces; executes the program


@pytest.fixture
def container(works: Works, gate: Gate, tmp_path: Path) -> Container:
    """Its root is a tmpfs, unreachable from outside, where its paths name a text file and the stand-in runtime."""
    root, folder = tmp_path / "root", tmp_path / "app"
    root.mkdir()
    folder.mkdir()
    StandIn(folder)
    decoys = [folder / "program", folder / "libcudart.so.13"]
    decoys[0].write_text("no program at all\n")
    script, inside = tmp_path / "container", f"{root}{folder}"
    script.write_text(
        f"""set -e
        exec < {gate.path}
        mount -t tmpfs none {root}
        cp -L --parents -t {root} {shlex.join(needed_by(works.shared.path))}
        mkdir -p {inside} {root}/old
        cp {works.shared.path} {inside}/program
        cp {RUNTIME} {inside}/
        cd {root}
        pivot_root . old
        LD_LIBRARY_PATH={folder} exec {decoys[0]} wait work
        """
    )
    return Container(decoys[0], script)


@pytest.mark.parametrize("way", ["command", "running"])
def test_a_container(container: Container, works: Works, gate: Gate, way: str) -> None:
    """A program in other namespaces has all calls and kernel names, though its paths name other files outside."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", str(container.script)]
    work = works.shared
    if way == "command":
        with tracing_command(*words) as (traced, command):
            traced.until(lambda: traced.functions)
            gate.open()
            traced.until(ended(command))
            traced.finish()
            assert command.poll() == 0
    else:
        with running(gate, *words) as process:
            deadline = time.monotonic() + 20
            while not (found := [pid for pid in children_of(process.pid) if runs(pid, container.program)]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            with tracing(Target(pid=found[0])) as traced:
                traced.until(lambda: traced.functions)
                gate.open()
                traced.until(lambda: process.poll() is not None)
                traced.finish()
    assert traced.calls == work.calls
    assert traced.launches == work.launches(container.program)
    assert traced.functions == functions_of(RUNTIME)


def test_containers_of_one_image(works: Works, gate: Gate, tmp_path: Path) -> None:
    """Overlays of one file have their own inodes but the same code: it is attached once, and each call is one row."""
    image, root = tmp_path / "image", tmp_path / "root"
    root.mkdir()
    image.mkdir()
    subprocess.run(["cp", "-L", "--parents", "-t", image, *needed_by(works.static.path)], check=True)
    shutil.copy(works.static.path, image / "program")
    script = tmp_path / "container"
    script.write_text(
        f"""set -e
        exec < {gate.path}
        mount -t tmpfs none {root}
        mkdir {root}/upper {root}/work {root}/merged
        mount -t overlay overlay -o lowerdir={image},upperdir={root}/upper,workdir={root}/work {root}/merged
        cd {root}/merged
        mkdir old
        pivot_root . old
        exec /program wait work
        """
    )
    container = f"unshare --mount sh {script}"
    with tracing_command("sh", "-c", f"{container} & {container} & wait") as (traced, command):
        traced.until(lambda: sum(runs(pid, "/program") for pid in children_of(command.pid)) == 2)
        traced.until(lambda: traced.functions)
        traced.poll(10)
        gate.open(2)
        traced.until(ended(command))
        traced.finish()
    work = works.static
    assert Counter(row["pid"] for row in traced.rows("cuda_call")) == Counter(
        {row["pid"]: work.times for row in traced.rows("cuda_call")}
    )
    assert traced.calls == {("cudaMalloc", work.bytes): 2 * work.times}
    assert traced.launches == {(f"{work.kernel}(int*)", "/program", "registration"): 2 * work.times}
    assert not any(row["nested"] for row in traced.rows("cuda_call"))
    assert traced.functions == functions_of(work.path)


def test_several_runtimes_in_one_process(works: Works, gate: Gate, tmp_path: Path) -> None:
    """With one runtime linked in and two files of another opened later, each call of each runtime is one row."""
    copies = [RUNTIME, Path(shutil.copy(RUNTIME, tmp_path))]
    words = [works.static.path, "wait", "open", copies[0], "open", copies[1], "wait", "work", "use", "use"]
    with tracing_command("sh", "-c", f"exec {shlex.join(map(str, words))} < {gate.path}") as (traced, command):
        traced.until(lambda: traced.functions)
        gate.open()
        traced.until(lambda: traced.functions >= functions_of(works.static.path, *copies))
        gate.open()
        traced.until(ended(command))
        traced.finish()
    times = works.static.times
    opened = Counter({("cudaMalloc", 1): 2 * times, ("cudaMalloc", 2): 2 * times})
    assert traced.calls == works.static.calls + opened
    assert traced.launches == works.static.launches()
    assert traced.functions == functions_of(works.static.path, *copies)


def test_a_file_that_is_opened_twice(works: Works, gate: Gate, tmp_path: Path) -> None:
    """A file that a process opens by two hard links is attached once; calls by both names are recorded."""
    (tmp_path / "second.so").hardlink_to(works.older.path)
    names = [works.older.path, tmp_path / "second.so"]
    words = [works.static.path, "open", names[0], "open", names[1], "wait", "use"]
    with running(gate, *words) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        deadline = time.monotonic() + 20
        while not all(str(name) in maps.read_text() for name in names):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with tracing(Target(pid=process.pid)) as traced:
            traced.until(lambda: traced.functions == functions_of(works.static.path, works.older.path))
            gate.open()
            traced.until(lambda: process.poll() is not None)
            traced.finish()
    older = works.older
    assert traced.calls == {("cudaMalloc", older.bytes): 2 * older.times}
    assert sum(traced.launches.values()) == 2 * older.times
    assert {(kernel, source) for kernel, _, source in traced.launches} == {("older(int*)", "registration")}
    assert traced.functions == functions_of(works.static.path, older.path)


def test_one_file_by_several_paths(works: Works, gate: Gate, tmp_path: Path) -> None:
    """A hard link, a symbolic link and a bind mount are the same program: attached once, one row per call."""
    paths = [tmp_path / name for name in ("hard", "symbolic", "bound")]
    paths[0].hardlink_to(works.static.path)
    paths[1].symlink_to(works.static.path)
    paths[2].touch()
    script = tmp_path / "script"
    script.write_text(
        f"mount --bind {works.static.path} {paths[2]}\n"
        + "".join(f"{path} wait work < {gate.path} &\n" for path in paths)
        + "wait\n"
    )
    seen = [paths[0], works.static.path, paths[2]]
    with tracing_command("unshare", "--mount", "sh", script) as (traced, command):
        traced.until(lambda: sum(any(runs(pid, path) for path in seen) for pid in children_of(command.pid)) == 3)
        traced.until(lambda: traced.functions)
        traced.poll(10)
        gate.open(3)
        traced.until(ended(command))
        traced.finish()
    work = works.static
    assert len({row["pid"] for row in traced.rows("cuda_call")}) == 3
    assert traced.calls == {("cudaMalloc", work.bytes): 3 * work.times}
    assert sum(traced.launches.values()) == 3 * work.times
    assert {(kernel, source) for kernel, _, source in traced.launches} == {("first(int*)", "registration")}
    assert traced.functions == functions_of(work.path)


def test_a_process_that_becomes_another_program(works: Works, gate: Gate) -> None:
    """An exec keeps the pid; calls and kernels before it are the first program's, those after it the second's."""
    words = [works.static.path, "wait", "work", "exec", works.shared.path, "wait", "work"]
    with tracing_command("sh", "-c", f"exec {shlex.join(map(str, words))} < {gate.path}") as (traced, command):
        traced.until(lambda: traced.functions)
        gate.open()
        traced.until(lambda: traced.functions == functions_of(works.static.path, RUNTIME))
        gate.open()
        traced.until(ended(command))
        traced.finish()
    first, second = works.static, works.shared
    assert {row["pid"] for row in traced.rows("cuda_call")} == {command.pid}
    assert [row["bytes"] for row in traced.rows("cuda_call")] == [307] * first.times + [401] * second.times
    assert traced.launches == first.launches() + second.launches()
    assert [row["comm"] for row in traced.rows("cuda_launch")] == ["static"] * first.times + ["shared"] * second.times


def test_a_library_that_is_replaced(works: Works, gate: Gate, tmp_path: Path) -> None:
    """When a new file replaces a mapped library, each process has the kernels of the file that it has mapped."""
    library, incoming = tmp_path / "libwork.so", tmp_path / "incoming"
    shutil.copy(works.older.path, library)
    shutil.copy(works.newer.path, incoming)
    program = f"{works.static.path} open {library} wait use < {gate.path} &"
    script = f"{program} while [ -e {incoming} ]; do sleep 0.05; done; {program} wait"
    with tracing_command("sh", "-c", script) as (traced, command):
        traced.until(lambda: traced.functions == functions_of(works.static.path, works.older.path))
        incoming.rename(library)
        files = (works.static.path, works.older.path, works.newer.path)
        traced.until(lambda: traced.functions == functions_of(*files))
        gate.open(2)
        traced.until(ended(command))
        traced.finish()
    kernels = Counter((row["pid"], row["kernel"], row["module"]) for row in traced.rows("cuda_launch"))
    assert sorted((kernel, module, times) for (_, kernel, module), times in kernels.items()) == [
        ("newer(int*)", str(library), works.newer.times),
        ("older(int*)", str(library), works.older.times),
    ]
    assert len({pid for pid, _, _ in kernels}) == 2
    assert traced.calls == works.older.calls + works.newer.calls


def test_a_library_that_was_replaced(works: Works, gate: Gate, tmp_path: Path) -> None:
    """If a new file had replaced a mapped library before the trace, kernels are those of the mapped file."""
    library = Path(shutil.copy(works.older.path, tmp_path / "libwork.so"))
    with running(gate, works.static.path, "open", library, "wait", "use") as process:
        deadline = time.monotonic() + 20
        while str(library) not in Path(f"/proc/{process.pid}/maps").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        Path(shutil.copy(works.newer.path, tmp_path / "incoming")).rename(library)
        with tracing(Target(pid=process.pid)) as traced:
            traced.until(lambda: traced.functions == functions_of(works.static.path, works.older.path))
            gate.open()
            traced.until(lambda: process.poll() is not None)
            traced.finish()
    assert traced.calls == works.older.calls
    assert traced.launches == works.older.launches(f"{library} (deleted)")


def test_what_was_stripped_is_said(works: Works, gate: Gate, tmp_path: Path) -> None:
    """A note names stripped files once; there is none for others."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, works.static.path], check=True)
    note = "the CUDA runtime is stripped in some files, of which only launches and calls of the driver are recorded: "
    for path, notes in ((works.static.path, []), (stripped, [f"{note}{stripped}"])):
        with tracing_command("sh", "-c", f"{path} wait work < {gate.path}; {path} work") as (traced, command):
            traced.until(lambda: traced.functions)
            gate.open()
            traced.until(ended(command))
            traced.finish()
            assert [said for said in traced.tracer.notes() if said.startswith(note)] == notes


def test_a_process_without_cuda() -> None:
    """For a process without CUDA, nothing is attached and nothing is recorded."""
    with subprocess.Popen(["sleep", "60"]) as process:
        with tracing(Target(pid=process.pid)) as traced:
            traced.poll(3)
            process.kill()
            process.wait()
            traced.finish()
        assert traced.functions == 0
        assert not traced.recording.batches


def test_names_of_files_are_anything(works: Works, gate: Gate, tmp_path: Path) -> None:
    """Calls of a program are recorded even if its path has line separators and invalid UTF-8."""
    folder = tmp_path / os.fsdecode("a\r\v\f\x1c\u0085\u2028 b".encode() + b"\xff")
    folder.mkdir()
    program = Path(shutil.copy(works.static.path, folder))
    with running(gate, program, "wait", "work") as process, tracing(Target(pid=process.pid)) as traced:
        traced.until(lambda: traced.functions)
        gate.open()
        traced.until(lambda: process.poll() is not None)
        traced.finish()
    assert traced.calls == works.static.calls
    assert sum(traced.launches.values()) == works.static.times


def test_a_program_smaller_than_a_page(works: Works, gate: Gate, tmp_path: Path) -> None:
    """A program file smaller than a page does not disturb the recording of others."""
    source, tiny = tmp_path / "tiny.S", tmp_path / "tiny"
    source.write_text(".globl _start\n_start: jmp _start\n")
    flags = ["-nostdlib", "-static", "-Wl,-N,--build-id=none,--no-warn-rwx-segments", "-s"]
    subprocess.run(["gcc", *flags, "-o", tiny, source], check=True)
    assert tiny.stat().st_size < 4096
    script = f"timeout 30 {tiny} & {works.static.path} wait work < {gate.path}; kill $!"
    with tracing_command("sh", "-c", script) as (traced, command):
        traced.until(lambda: traced.functions)
        gate.open()
        traced.until(ended(command))
        traced.finish()
    assert traced.calls == works.static.calls


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cuda_left.c, linked with the stand-in."""
    folder = tmp_path_factory.mktemp("left")
    StandIn(folder)
    libraries = [folder / name for name in ("libcudart.so.13", "libcuda.so.1")]
    flags = ["-O1", "-pthread", f"-Wl,--no-as-needed,-rpath={folder}"]
    subprocess.run(["gcc", *flags, "-o", folder / "left", WORKLOADS / "cuda_left.c", *libraries], check=True)
    return folder / "left"


def test_a_program_that_is_killed(left: Path, tmp_path: Path) -> None:
    """Every call that returned before the kill is one row, and none is lost; there is at most one more row."""
    counted = tmp_path / "count"
    with tracing_command(left, counted) as (traced, command):
        traced.until(lambda: traced.recording.count("cuda_call") > 101)
        os.kill(command.pid, signal.SIGKILL)
        traced.until(ended(command))
        traced.finish()
    (returned,) = struct.unpack("<q", counted.read_bytes())
    assert command.poll() == -signal.SIGKILL
    rows = traced.rows("cuda_call")
    assert {(row["function"], row["nested"]) for row in rows} == {("cudaDeviceSynchronize", 0)}
    assert len(rows) - returned in (0, 1), "it may have been killed between a return and the counting"


def test_calls_that_are_left(left: Path) -> None:
    """Calls left by a jump are counted as lost; those in which the thread or process ended are rows without a result.

    All later calls are recorded.
    """
    with tracing_command(left) as (traced, command):
        traced.until(ended(command))
        traced.finish(left=9 + 7)
        places = {place.name: place for place in traced.tracer.places()}
    assert command.poll() == 7
    rows = [row for row in traced.rows("cuda_call") if row["function"] == "cudaMalloc"]
    assert Counter((row["bytes"], row["nested"]) for row in rows) == {(199, 0): 9, (211, 0): 11, (223, 0): 13}
    nested = [row for row in traced.rows("cuda_call") if row["nested"]]
    assert Counter(row["function"] for row in nested) == {"cuMemAlloc_v2": 9 + 11 + 13}
    assert len({row["tid"] for row in rows}) == 3
    waits = [row for row in traced.rows("cuda_call") if row["function"] == "cudaDeviceSynchronize"]
    assert [(row["result"], row["nested"]) for row in waits] == [(None, 0), (None, 0)]
    assert all(places[name].files for name in ("cudaDeviceSynchronize", "cudaMalloc", "cudaFree"))
    assert (places["cudaDeviceSynchronize"].hits, places["cudaDeviceSynchronize"].lost) == (9 + 7 + 2, {"left": 9 + 7})
    assert (places["cudaMalloc"].hits, places["cudaMalloc"].lost) == (len(rows), {})
    assert places["cudaFree"].hits == 0, "attached, no hits"
    held = {row["memory"]: row for row in traced.rows("cuda_memory")}
    assert (held["device"]["live_count"], held["device"]["live_bytes"]) == (33, 9 * 199 + 11 * 211 + 13 * 223)


def test_files_are_known_while_other_threads_map(works: Works) -> None:
    """The kernel cannot look up a mapping while another thread maps or unmaps; each file is still identified."""
    libc, over = ctypes.CDLL(None), threading.Event()
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def map_and_unmap() -> None:
        while not over.is_set():
            libc.munmap(libc.mmap(None, 1 << 20, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0), 1 << 20)

    threads = [threading.Thread(target=map_and_unmap) for _ in range(2)]
    with tracing(Target(exe=str(works.static.path))) as traced:
        assert traced.tracer._functions and traced.tracer._functions._attacher
        modules = traced.tracer._functions._attacher._modules
        inodes: dict[FileId, int] = {}  # no watched process has these files, so they are released soon
        for thread in threads:
            thread.start()
        try:
            for mapping in executable_mappings(os.getpid()):
                with suppress(OSError, NotElf):
                    inodes[mapping.file] = modules.add(open_mapped(os.getpid(), mapping), mapping.path).inode
        finally:
            over.set()
            for thread in threads:
                thread.join()
    mine = {one.file for one in executable_mappings(os.getpid()) if one.path.endswith(".so")}
    assert len(mine) > 20
    assert set(inodes) >= mine
    assert all(inodes.values()), "0 is no inode"
    assert len(set(inodes.values())) == len(inodes)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes attaching to files with cudaMalloc fail, as if the kernel refused it."""
    attach = Uprobes.attach

    def refuse(uprobes: Uprobes, module: Module, found: Mapping[str, int]) -> int:
        if module.elf.functions(["cudaMalloc"]):
            raise KernelError("cannot attach to a function", errno.EINVAL)
        return attach(uprobes, module, found)

    monkeypatch.setattr(Uprobes, "attach", refuse)


@pytest.mark.usefixtures("refused")
def test_a_refusal_is_said(works: Works) -> None:
    """If the kernel refuses to attach to a command's file, tracing does not begin, and the error has the reason."""
    with pytest.raises(NotSupported, match="cannot attach to a function"), tracing_command(works.static.path, "work"):
        pass


@pytest.mark.usefixtures("refused")
def test_a_refusal_of_somebodys_file_ends_no_task(works: Works, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """If the kernel refuses a file that some process has mapped, the log says so and the trace goes on."""
    with running(gate, works.static.path, "wait", "work") as process, tracing(Target(pid=process.pid)) as traced:
        traced.poll(5)
        assert not traced.functions
    assert "cannot attach to functions of a file" in caplog.text
