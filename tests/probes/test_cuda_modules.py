"""Files of short processes, many files, and many mappings at once are attached in time, and released afterwards."""

import ctypes
import errno
import gc
import mmap
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.probes.cuda_programs import WORKLOADS
from tests.probes.recording import Recording

from scope_bpf.binding.mapping_watch import MappingWatch, News
from scope_bpf.capture import attacher as attacher_module
from scope_bpf.capture import functions as functions_module
from scope_bpf.capture.attacher import Attacher
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.capture.uprobe import Uprobes
from scope_bpf.catalogue.target import Target
from scope_bpf.code.mappings import executable_mappings
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

MAP_FIXED = 0x10  # include/uapi/asm-generic/mman-common.h


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("small") / "libsmall.so"
    flags = ["-shared", "-fPIC", "-O1", "-fno-omit-frame-pointer"]
    subprocess.run(["gcc", *flags, "-o", output, WORKLOADS / "cuda_small.c"], check=True)
    return output


class Traced:
    """A command under a tracer.

    Attributes:
        count: number of recorded calls.
        recording: these calls, or nothing if `is_kept` is false.
    """

    def __init__(self, tracer: Tracer, command: HeldCommand) -> None:
        self.tracer, self.command, self.recording = tracer, command, Recording(command.pid)
        self.is_kept, self.count = True, 0
        assert tracer._functions and tracer._functions._attacher
        self.attacher: Attacher = tracer._functions._attacher

    def until(self, true: Callable[[], Any], patience_s: float = 120) -> None:
        deadline = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < deadline
            self.poll()

    def poll(self) -> None:
        self._take(self.tracer.poll(20))

    def _take(self, batches: list[Batch]) -> None:
        for raw in batches:
            self.recording.add(raw)
            self.count += len(raw.rows) if raw.stream.name == "cuda_call" else 0
        if not self.is_kept:
            self.recording.batches.clear()

    def finish(self) -> list[dict[str, Any]]:
        self.until(lambda: self.command.poll() is not None)
        self._take(self.tracer.finish())
        return self.recording.rows("cuda_call")


@contextmanager
def tracing(*words: object, target: Target | None = None) -> Iterator[Traced]:
    """Starts a command under a tracer; its children are watched too."""
    probe = probe_named("cuda")
    command = HeldCommand([str(word) for word in words])
    try:
        target = target or Target(pid=command.pid)
        with Tracer(probe, parse_options(probe.options, {}), target, command=command.path) as tracer:
            tracer.start()
            traced = Traced(tracer, command)
            command.release()
            yield traced
    finally:
        if command.poll() is None:
            os.kill(command.pid, 9)
        command.close()


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def until_descriptors_are_at_most(count: int) -> None:
    """Waits for the tracer to close descriptors: the files read last stay open, but a leak would be hundreds."""
    deadline = time.monotonic() + 60
    while descriptors() > count + 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what glibc keeps of the moment with the most processes is free
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_thousand_files_of_processes_that_ended_leave_nothing(
    workload: Callable[[str], str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 1,000 short processes, each with its own library, descriptors, mappings and memory are as before."""
    monkeypatch.setattr(functions_module, "_GRACE_S", 0.1)
    monkeypatch.setattr(attacher_module, "_LET_GO_EVERY_S", 0.1)
    program = workload("cuda_modules")
    copies, warmed = tmp_path / "copies", tmp_path / "warmed"
    copies.mkdir()
    first, others = (f"{program} copies {library} {copies} {count}" for count in (200, 1000))
    script = f"{first}; : > {warmed}; read word; {others}"
    reading, writing = os.pipe()
    with tracing("sh", "-c", f"({script}) < /proc/{os.getpid()}/fd/{reading}") as traced:
        attacher, traced.is_kept = traced.attacher, False

        def has_let_go() -> bool:
            kept = [module.path for module in attacher._modules.by_inode.values()]
            return not any(path.startswith(str(copies)) for path in kept)

        before = len(attacher._modules.by_inode)
        traced.until(lambda: warmed.exists() and has_let_go())
        warm, memory, kept = descriptors(), resident_bytes(), len(attacher._modules.by_inode)
        os.write(writing, b"\n")
        traced.finish()
        attacher.follow(set)
        deadline = time.monotonic() + 30
        while not has_let_go() or len(attacher._modules.by_inode) > kept:
            assert time.monotonic() < deadline
            attacher.follow(set)
        assert traced.count, "some were attached to while they lived"
        assert traced.count + attacher.missed.unseen <= 1200
        assert before <= kept
        until_descriptors_are_at_most(warm)
        assert str(copies) not in Path("/proc/self/maps").read_text()
        assert len(attacher._history) < 10
        deadline = time.monotonic() + 30
        while resident_bytes() - memory >= 8 << 20:  # the tracer's threads may still let go
            assert time.monotonic() < deadline, "8 KiB a process would be as much"
            time.sleep(0.1)
    os.close(reading)
    os.close(writing)


def test_containers_leave_nothing(
    workload: Callable[[str], str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the tracer nor its attached probes hold files of mount namespaces that have ended."""
    monkeypatch.setattr(functions_module, "_GRACE_S", 0.1)
    monkeypatch.setattr(attacher_module, "_LET_GO_EVERY_S", 0.1)
    inside = tmp_path / "inside"
    inside.mkdir()
    script = tmp_path / "container"
    script.write_text(
        f"mount -t tmpfs none {inside}\n{workload('cuda_modules')} copies {library} {inside} 1\n"
        f"cp {library} {inside}/kept.so\n{workload('cuda_modules')} children {inside}/kept.so 1\n"
    )
    seen, again = tmp_path / "seen", f"unshare --mount sh {script}"
    with tracing("sh", "-c", f"until [ -e {seen} ]; do {again}; done; for i in $(seq 30); do {again}; done") as traced:
        before = descriptors()

        def ended() -> bool:
            if traced.attacher.functions:
                seen.touch()
            return traced.command.poll() is not None

        traced.until(ended)
        deadline = time.monotonic() + 30
        while any(str(inside) in module.path for module in traced.attacher._modules.by_inode.values()):
            assert time.monotonic() < deadline
            traced.attacher.follow(set)
        until_descriptors_are_at_most(before)
        assert str(inside) not in Path("/proc/self/maps").read_text()


def test_many_libraries_of_one_process(
    workload: Callable[[str], str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 1,200 libraries, at most 128 files stay open besides the attached probes; stacks name functions of each."""
    for number in range(1200):
        shutil.copy(library, tmp_path / f"{number}.so")
    monkeypatch.setattr(functions_module, "_GRACE_S", 1000.0)
    with tracing(workload("cuda_modules"), "open", tmp_path, 1200) as traced:
        traced.until(lambda: traced.attacher.functions >= 1200 or traced.attacher.missed.unopened)
        assert traced.attacher._modules.files.count <= 128
        modules = [one for one in traced.attacher._modules.by_inode.values() if one.path.startswith(str(tmp_path))]
        assert len(modules) == 1200
        assert {module.name_at(module.elf.functions(["cudaMalloc"])["cudaMalloc"]) for module in modules} == {
            "cudaMalloc"
        }


def test_what_has_no_descriptor_left_is_counted(
    workload: Callable[[str], str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be opened or attached is retried, then counted as `file_unopened`."""
    for number in range(100):
        shutil.copy(library, tmp_path / f"{number}.so")
    monkeypatch.setattr("scope_bpf.capture.retries._MOST_TRIES", 3)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tracing(workload("cuda_modules"), "open", tmp_path, 100) as traced:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 60, limits[1]))
        try:
            traced.until(lambda: traced.attacher.functions + traced.attacher.missed.unopened >= 100)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert 0 < traced.attacher.functions < 100
        assert traced.attacher.missed.retries >= traced.attacher.missed.unopened > 0
        accounts = traced.tracer.accounts()
    assert sum(account.lost.get("file_unopened", 0) for account in accounts.values()) > 0, "or it is said: none lost"


def test_children_that_use_a_known_library_are_all_there(
    workload: Callable[[str], str], library: Path, tmp_path: Path
) -> None:
    """After one process has mapped a file, all others are recorded from their first call, even very short ones."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    program = workload("cuda_modules")
    script = f"{program} children {library} 1; read word < {gate}; exec {program} children {library} 400"
    with tracing("sh", "-c", script) as traced:
        traced.until(lambda: traced.attacher.functions)
        seen_before = len(traced.recording.rows("cuda_call"))
        gate.write_text("go\n")
        rows = traced.finish()
    assert seen_before <= 1
    by_process = {(row["pid"], row["start_ns"]) for row in rows}
    assert len(rows) - seen_before in (400, 401), "the first one's row may come late"
    assert len(by_process) == len(rows)


def test_others_wake_nobody(
    workload: Callable[[str], str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mappings, forks and ends of unwatched processes are not reported; those of the target are."""
    gate, read, told = tmp_path / "gate", MappingWatch.read, [0]

    def count(news: MappingWatch) -> News:
        found = read(news)
        told[0] += len(found)
        return found

    monkeypatch.setattr(MappingWatch, "read", count)
    os.mkfifo(gate)
    with tracing("sh", "-c", f"read word < {gate}; {workload('cuda_modules')} children {library} 1") as traced:
        writing = opened_once_read(gate)
        traced.attacher._catch_up(traced.command.pid)
        before = told[0]
        assert before > 0
        subprocess.run("for i in $(seq 200); do /bin/true; done", shell=True, check=True)
        traced.attacher._catch_up(traced.command.pid)
        assert told[0] == before
        os.write(writing, b"go\n")
        traced.until(lambda: told[0] > before)
        os.close(writing)


def opened_once_read(fifo: Path) -> int:
    """A descriptor to write to the FIFO, once it has a reader."""
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "target", [pytest.param(None, id="family"), pytest.param(Target(), id="everybody", marks=pytest.mark.alone)]
)
def test_a_transient_refusal_is_tried_again(
    workload: Callable[[str], str],
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    times: int,
    target: Target | None,
) -> None:
    """A file whose attach fails with EAGAIN is attached a little later, and the retries are counted."""
    gate, attach = tmp_path / "gate", Uprobes.attach
    refused: list[str] = []

    def refuse(uprobes: Uprobes, module: Module, found: dict[str, int]) -> int:
        if module.path == str(library) and len(refused) < times:
            refused.append(module.path)
            raise KernelError("cannot attach to a function", errno.EAGAIN)
        return attach(uprobes, module, found)

    monkeypatch.setattr(Uprobes, "attach", refuse)
    os.mkfifo(gate)
    program = workload("cuda_modules")
    script = f"{program} children {library} 1; read word < {gate}; exec {program} children {library} 7"
    with tracing("sh", "-c", script, target=target) as traced:
        traced.until(lambda: str(library) in {late.path for late in traced.attacher.late})
        writing = opened_once_read(gate)
        os.write(writing, b"go\n")
        rows = traced.finish()
        os.close(writing)
        assert len(refused) == times
        assert traced.attacher.missed.retries >= times
        assert traced.attacher.missed.unopened == 0
    assert len([row for row in rows if row["bytes"] == 101]) >= 7


def test_how_late_it_was_is_said(workload: Callable[[str], str], library: Path) -> None:
    """A file that was mapped before it was attached has the time from mapping to attach."""
    began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with tracing(workload("cuda_dlopen"), library, "3") as traced:
        traced.until(lambda: traced.attacher.late)
        (late,) = traced.attacher.late
        passed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began_ns
        traced.finish()
    assert (late.path, late.functions) == (str(library), 1)
    assert 0 < late.late_ns < passed_ns


def test_a_program_with_other_rights_is_followed(workload: Callable[[str], str], library: Path, tmp_path: Path) -> None:
    """The kernel removes perf events from a set-user-ID program; the files that it opens are still attached."""
    program = Path(shutil.copy(workload("cuda_dlopen"), tmp_path))
    tmp_path.chmod(0o755)
    for folder in program.parents[:2]:
        folder.chmod(0o755)
    program.chmod(0o4755)
    with tracing("setpriv", "--reuid=65534", "--clear-groups", program, library, "103") as traced:
        rows = traced.finish()
    if traced.command.poll():
        pytest.skip("no program gets other rights here")
    assert len(rows) == 103


def test_what_takes_the_place_of_a_file_is_not_taken_for_it(library: Path, tmp_path: Path) -> None:
    """If another file takes the address of a reported mapping before the open, the reported file is opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    first, second = (Path(shutil.copy(library, tmp_path / name)) for name in ("first.so", "second.so"))

    def map_at(address: int | None, path: Path) -> int:
        flags = mmap.MAP_PRIVATE | (MAP_FIXED if address else 0)
        with path.open("rb") as file:
            return int(libc.mmap(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, flags, file.fileno(), 0))

    with tracing("sleep", "600") as traced:
        address = map_at(None, first)
        (told,) = (one for one in executable_mappings(os.getpid()) if one.start == address)
        assert map_at(address, second) == address
        module = traced.attacher._watched._opened.open(os.getpid(), told)
        assert module
        assert module.named == (first.stat().st_dev, first.stat().st_ino)
