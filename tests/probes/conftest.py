"""Runs a workload under a probe, on the real kernel, and returns the recording."""

import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import cached
from tests.llm.tiny_model import write
from tests.probes.recording import Compile, Record, Recording

from scope_bpf.capture import functions
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import NotSupported, ScopeBpfError
from scope_bpf.host import require_bpf
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

WORKLOADS = Path(__file__).parent / "workloads"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _bpf() -> None:
    try:
        require_bpf()
    except NotSupported as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _reads_all_of_running_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine has the time that it needs."""
    monkeypatch.setattr(functions, "SETTLE_S", 60.0)


@pytest.fixture
def record(runnable: dict[str, str]) -> Record:
    """Runs a command under a probe, held for `hold` seconds first: `record("syscalls", ["ls"], mode="summary")`."""

    def run(
        probe: str | Probe,
        command: Sequence[str],
        *,
        target: Target | None = None,
        poll: bool = True,
        hold: float = 0,
        **options: Any,
    ) -> Recording:
        is_thrown_away = not isinstance(probe, str)
        probe = probe_named(probe) if isinstance(probe, str) else probe
        held = HeldCommand(command)
        recording = Recording(held.pid)
        try:
            target = target or Target(pid=held.pid)
            with Tracer(probe, parse_options(probe.options, options), target, command=held.path) as tracer:
                try:
                    tracer.start()
                except ScopeBpfError:  # only now, because examining a probe takes long on a busy machine
                    if not is_thrown_away and (reason := runnable[probe.name]):
                        pytest.skip(reason)
                    raise
                time.sleep(hold)
                held.release()
                while held.poll() is None:
                    for raw in tracer.poll(50) if poll else ():
                        recording.add(raw)
                for raw in tracer.finish():
                    recording.add(raw)
                recording.accounts, recording.places = tracer.accounts(), tracer.places()
                recording.notes = tracer.notes()
        finally:
            held.close()
        recording.status = held.poll()
        return recording

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write(path)
    return path


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Compiles workloads/NAME.c; returns the program's path, the same in the whole session."""
    folder = tmp_path_factory.mktemp("workloads")

    def build(name: str) -> str:
        return str(cached.compiled(folder / name, "gcc", ["-O1", "-pthread"], WORKLOADS / f"{name}.c"))

    return build


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles the BPF object of a throw-away probe and points the catalogue to its folder."""

    def build(name: str, text: str) -> None:
        source = tmp_path / f"{name}.bpf.c"
        source.write_text(text)
        architecture = "arm64" if platform.machine() == "aarch64" else "x86"
        flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-D__TARGET_ARCH_{architecture}"]
        includes = [f"-I{ROOT}/bpf/include", f"-I{ROOT}/bpf/vmlinux/{architecture}"]
        subprocess.run(["clang", *flags, *includes, "-c", source, "-o", tmp_path / f"{name}.bpf.o"], check=True)
        monkeypatch.setattr("scope_bpf.catalogue.probe.OBJECTS", tmp_path)

    return build
