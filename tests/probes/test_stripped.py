"""Stacks of programs without symbols: named by separate debug files, or by file and offset."""

import gc
import subprocess
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from tests.debuginfod_server import has_nothing, sends, serving, stripped
from tests.llm.runs import stopped
from tests.probes.conftest import WORKLOADS
from tests.probes.recording import Record, Recording

from scope_bpf.catalogue.target import Target
from scope_bpf.code.elf import ElfFile

NAMED = ["main", "outer", "inner"]
Calls = Callable[..., Recording]


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, bytes]:
    """A stripped program, and its debug file."""
    path = tmp_path / "stripped"
    subprocess.run(["gcc", "-O1", "-g", "-o", path, WORKLOADS / "stripped.c"], check=True)
    return path, stripped(path)


@pytest.fixture
def calls(record: Record, program: tuple[Path, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Records the program's calls of getppid(): a few, or all until a shell command has ended."""
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))

    def run(url: str = "", until: str = "") -> Recording:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        with stopped([str(program[0]), "1000000" if until else "7"], tmp_path / "out") as pid:
            ended = f"until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
            command = f"kill -CONT {pid}; {f'{until}; kill {pid};' if until else ''} {ended}"
            options: dict[str, Any] = {"functions": ["libc:getppid"], "stacks": True}
            return record("span", ["sh", "-c", command], target=Target(pid=pid), **options)

    return run


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Objects that refer to each other stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def stacks_of(recording: Recording) -> list[list[str]]:
    """Each call's innermost frames, from main() on."""
    return [row["stack"].split(";")[-len(NAMED) :] for row in recording.rows("span")]


def has_no_name(stack: list[str]) -> bool:
    return all(frame.startswith("stripped+0x") for frame in stack)


def test_without_names(calls: Calls, program: tuple[Path, bytes]) -> None:
    """File, offset of the function's first instruction, and build id: with them, frames can be named later."""
    path, content = program
    debug = path.with_name("kept.debug")
    debug.write_bytes(content)
    with FileIO(path) as file, FileIO(debug) as debug_file:
        elf, symbols = ElfFile(file), ElfFile(debug_file).symbols
        assert symbols
        offsets = [elf.offset_of(symbols.addresses([name])[name]) for name in NAMED]
        wanted = [f"stripped+{offset:#x} [{elf.build_id}]" for offset in offsets]
    assert stacks_of(calls()) == [wanted] * 7


def test_names_from_a_server(calls: Calls, program: tuple[Path, bytes], tmp_path: Path) -> None:
    """Not before the file has arrived, and all right from then on; the next run has the names from the cache."""
    arrived = f"until [ -s {tmp_path}/cache/*/debuginfo ]; do sleep 0.05; done; sleep 2"
    with serving(sends(program[1])) as (url, asked):
        stacks = stacks_of(calls(url, until=arrived))
        named = [index for index, stack in enumerate(stacks) if stack == NAMED]
        assert named[0] > 0, "the file is sought for the first call's stack"
        assert named == list(range(named[0], len(stacks)))
        assert all(map(has_no_name, stacks[: named[0]]))
        assert stacks_of(calls(url, until="sleep 2"))[-1] == NAMED
        assert len(asked) == 1


def test_a_server_that_does_not_know_the_file(calls: Calls, tmp_path: Path) -> None:
    """Which is said."""
    with serving(has_nothing) as (url, asked):
        recording = calls(url, until=f"until [ -e {tmp_path}/cache/*/debuginfo ]; do sleep 0.05; done; sleep 1")
    assert all(map(has_no_name, stacks_of(recording)))
    assert len(asked) == 1
    assert "debuginfod: no server has the file (1)" in recording.notes


def test_a_debug_file_on_this_machine(calls: Calls, program: tuple[Path, bytes]) -> None:
    """All names are right at once; no server is asked."""
    path, content = program
    debug = path.with_name("kept.debug")
    debug.write_bytes(content)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", path], check=True)
    with serving(has_nothing) as (url, asked):
        assert stacks_of(calls(url)) == [NAMED] * 7
    assert asked == []


@pytest.mark.usefixtures("no_collector")
def test_a_debug_file_is_closed(calls: Calls, program: tuple[Path, bytes]) -> None:
    """With the end of the trace, not when Python next looks for garbage."""
    path, content = program
    debug = path.with_name("kept.debug")
    debug.write_bytes(content)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", path], check=True)
    assert stacks_of(calls()) == [NAMED] * 7
    assert debug not in {entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
