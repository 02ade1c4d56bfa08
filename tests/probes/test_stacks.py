"""Call stacks, native and Python, at calls whose stacks are known exactly."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.llm.runs import stopped
from tests.probes.conftest import WORKLOADS
from tests.probes.recording import Record, Recording

from scope_bpf.binding.map import Map
from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.batch import RawBatch
from scope_bpf.capture.functions import Functions
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

Paths = Callable[..., Recording]

FRAMES = WORKLOADS / "python_frames.py"
PYENV = Path.home() / ".pyenv/versions"
FLAGS = ("-O2", "-fomit-frame-pointer", "-pthread")


def spans(record: Record, pid: int, file: str = "libc") -> list[dict[str, Any]]:
    """The calls of getppid(), which is in this file, that a stopped process makes until its end."""
    ended = f"kill -CONT {pid}; until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
    options = {"functions": [f"{file}:getppid"], "stacks": True}
    recorded: Recording = record("span", ["sh", "-c", ended], target=Target(pid=pid), **options)
    assert recorded.accounts["span"].incomplete == 0
    return recorded.rows("span")


@pytest.fixture(scope="module", params=[(), ("-static",), ("-fcf-protection=full", "-O0"), ("-s", "-rdynamic")])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program without frame pointers, built in several ways."""
    output = tmp_path_factory.mktemp("unwound") / "unwound"
    subprocess.run(["gcc", *FLAGS, *request.param, "-o", output, WORKLOADS / "unwound.c"], check=True)
    return output


def test_code_without_frame_pointers(record: Record, program: Path, tmp_path: Path) -> None:
    """Frames of any kind have their callers: of unknown size, aligned, called by libraries, interrupted by signals."""
    with stopped([str(program)], tmp_path / "out") as pid:
        rows = spans(record, pid, "libc" if b"/ld-linux" in program.read_bytes()[:8192] else "unwound")
    own = {"main", "leaf", "grows", "aligned", "compare", "sorts", "on_signal", "signalled", "recurses", "thread"}
    found = [[frame for frame in row["stack"].split(";") if frame in own] for row in rows]
    assert found == [
        ["main", "leaf"],
        ["main", "grows", "leaf"],
        ["main", "aligned", "leaf"],
        ["main", "sorts", "compare", "leaf"],
        ["main", "signalled", "on_signal", "leaf"],
        ["main", *["recurses"] * 4, "leaf"],
        ["thread", "leaf"],
    ]
    assert not any("[cut]" in row["stack"] for row in rows)


def interpreters() -> list[Any]:
    """The interpreters of this machine whose frames are known."""
    found = [Path(sys.executable), *(path for path in [Path("/usr/bin/python3")] if path.exists())]
    found += sorted(PYENV.glob("3.*/bin/python3"))
    versions = {
        path: subprocess.check_output([path, "-c", "import sys; print(*sys.version_info[:2])"]) for path in found
    }
    known = [path for path, version in versions.items() if tuple(map(int, version.split())) >= (3, 8)]
    return [pytest.param(path, id=str(path)) for path in dict.fromkeys(path.resolve() for path in known)]


@pytest.mark.parametrize("python", interpreters())
def test_python_frames(record: Record, python: Path, tmp_path: Path) -> None:
    """At every call, the stack has the functions, files and lines that the interpreter itself tells, in their order."""
    with stopped([str(python), str(FRAMES)], tmp_path / "out") as pid:
        rows = spans(record, pid)
    told = json.loads((tmp_path / "out").read_text())
    found = [
        [frame for frame in reversed(row["stack"].split(";")) if frame.endswith(")") and ":" in frame] for row in rows
    ]
    assert found == told
    assert len(told) > 30


@pytest.mark.parametrize("python", interpreters())
def test_python_frames_are_where_the_interpreter_runs_them(record: Record, python: Path, tmp_path: Path) -> None:
    """The native stack is around them, and what they call is inside of the innermost one."""
    with stopped([str(python), str(FRAMES)], tmp_path / "out") as pid:
        rows = spans(record, pid)
    assert rows
    for frames in (row["stack"].split(";") for row in rows):
        python_frames = [index for index, frame in enumerate(frames) if ".py:" in frame]
        assert any("ffi" in frame for frame in frames[max(python_frames) :]), "ctypes calls through libffi"
        assert min(python_frames) > 2 or frames[0] == "[cut]", "the interpreter's start is outside"
        assert not any(frame.startswith("_PyEval_EvalFrameDefault") for frame in frames)


def in_rounds(
    command: Sequence[str], functions: str, rounds: int, before: Callable[[BpfObject], None] = lambda _: None
) -> Recording:
    """Calls of functions by a program that stops itself before each round; the calls of a round are read before the
    next one. `before` gets the probe's object."""
    probe, recorded = probe_named("span"), Recording()
    options = parse_options(probe.options, {"functions": [functions], "stacks": True, "returns": "none"})
    with stopped(command, Path("/dev/null")) as pid, Tracer(probe, options, Target(pid=pid)) as tracer:
        tracer.start()
        assert tracer._programs
        before(tracer._programs.object)
        for _ in range(rounds):
            os.kill(pid, signal.SIGCONT)
            os.waitpid(pid, os.WUNTRACED)  # until it stops again, or ends
            while raws := list(tracer.poll(200)):
                for raw in raws:
                    assert isinstance(raw, RawBatch)
                    recorded.add(raw)
        for raw in tracer.finish():
            assert isinstance(raw, RawBatch)
            recorded.add(raw)
        recorded.accounts, recorded.notes = tracer.accounts(), tracer.notes()
    return recorded


@pytest.fixture
def with_small_maps(runnable: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's maps have room for 2,048 stacks and as many code objects, and so have the texts."""
    if runnable["span"]:
        pytest.skip(runnable["span"])
    prepare = Functions.prepare

    def smaller(self: Functions, object_: BpfObject) -> None:
        prepare(self, object_)
        for name in ("scope_stacks", "python_codes", "python_lines"):
            object_.map(name).resize(2048)

    monkeypatch.setattr(Functions, "prepare", smaller)
    monkeypatch.setattr("scope_bpf.code.kept_stacks._MOST_TEXTS", 2048)
    monkeypatch.setattr("scope_bpf.code.python.codes._MOST_TEXTS", 2048)


@pytest.fixture
def paths(with_small_maps: None, workload: Callable[[str], str]) -> Paths:
    """`paths(BEFORE)`: the stacks of a program that calls a function by 8 times 1,024 ways, the last four times by the
    same ways as the first four; BEFORE gets the map of stacks."""
    assert with_small_maps is None

    def run(before: Callable[[Map], None] = lambda _: None) -> Recording:
        command = [workload("paths"), "10", "8", "4"]
        recorded = in_rounds(command, "paths:reached", 8, lambda object_: before(object_.map("scope_stacks")))
        assert recorded.count("span") == 8 << 10
        return recorded

    return run


def test_more_stacks_than_the_map_has_room_for(paths: Paths) -> None:
    """A process that runs for long has ever new stacks: once they are named, there is room for others, also when the
    first texts are forgotten; and a stack that comes again has its text again."""
    recorded = paths()
    texts = recorded.table("span")["stack"].cast(pa.string())
    assert texts.null_count == 0
    assert recorded.accounts["span"].incomplete == 0
    deep = Counter(text.count(";deeper") for text in texts.to_pylist())
    assert deep == {1: 2 << 10, 2: 2 << 10, 3: 2 << 10, 4: 2 << 10}
    assert not any("missing" in note for note in recorded.notes)


def test_stacks_that_no_row_tells_make_room(paths: Paths) -> None:
    """The map is full of stacks whose rows never come: the oldest of them go, and it is said what was missing."""

    def fill(stacks: Map) -> None:
        for number in range(stacks.max_entries):
            stacks.update(number.to_bytes(16, "little") + os.getpid().to_bytes(8, "little"), bytes(stacks.value_size))

    recorded = paths(fill)
    missing = recorded.table("span")["stack"].null_count
    assert 0 < missing <= 2 << 10
    share = missing / (8 << 10)
    said = f"{missing:,} of 8,192 stacks are missing ({share:.1%}): the kernel's map had no room ({missing:,})"
    assert [note for note in recorded.notes if "missing" in note] == [said]
    assert recorded.accounts["span"].incomplete == missing


@pytest.mark.usefixtures("with_small_maps")
def test_more_code_objects_than_the_map_has_room_for() -> None:
    """A machine runs for long, and has ever new Python functions: once they are read, there is room for others; and one
    that is called again is named again."""
    script = (
        "import os, signal\n"
        "for number in [*range(8), *range(4)]:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    for one in range(1000 * number, 1000 * (number + 1)):\n"
        "        names = {'os': os}\n"
        "        exec(f'def function_{one}(): os.getppid()', names)\n"
        "        names[f'function_{one}']()\n"
    )
    recorded = in_rounds(["/usr/bin/python3", "-S", "-c", script], "libc:getppid", 12)
    texts = recorded.table("span")["stack"].cast(pa.string()).to_pylist()
    called = Counter(name for text in texts for name in re.findall(r"function_[0-9]+ ", text or ""))
    assert len(texts) == 12_000
    assert called == {f"function_{number} ": 2 if number < 4000 else 1 for number in range(8000)}
    assert recorded.accounts["span"].incomplete == 0
