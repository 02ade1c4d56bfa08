"""The end of a trace does not wait until a file is read: any process may have made it."""

import io
import itertools
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from scope_bpf.capture.attacher import Attacher
from scope_bpf.catalogue.target import Target
from scope_bpf.code.elf import ElfFile
from scope_bpf.probes import probe_named
from scope_cli.trace.lines import LinesSink
from scope_cli.trace.recording import Recording
from scope_cli.trace.sink import Sinks
from scope_cli.trace.tracing import Tracing

DEADLINE_S = 120
# Calls a function all the time; maps the files that it is told to, as code.
PROGRAM = """
import mmap, os, sys, threading
def map_files():
    mapped = [mmap.mmap(os.open(line.strip(), os.O_RDONLY), 0, prot=mmap.PROT_EXEC) for line in sys.stdin]
threading.Thread(target=map_files, daemon=True).start()
print("runs", flush=True)
while os.getppid():
    pass
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout and running.stdout.readline() == "runs\n"
        yield running
        running.kill()


def test_a_file_that_is_read_without_end(
    program: subprocess.Popen[str],
    workload: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A trace ends although a file is still read and names wait for it; it says in which file it has not looked."""
    begun, asked, released = (threading.Event() for _ in range(3))
    catch_up, lines = Attacher._catch_up, io.BytesIO()
    files = [str(shutil.copy(workload("spin"), tmp_path / f"hostile{number}")) for number in range(3)]

    def endless(elf: ElfFile, _names: Collection[str]) -> dict[str, int]:
        """Stands in for reading the symbols of a file to attach in it."""
        for _ in elf.effort.on(itertools.count()):
            begun.set()
            if released.wait(0.01):
                break
        return {}

    def asking(attacher: Attacher, pid: int) -> None:
        asked.set()
        catch_up(attacher, pid)

    monkeypatch.setattr(Attacher, "_catch_up", asking)
    options = {"functions": "*:getppid", "stacks": "true"}
    with Tracing([probe_named("span")], options, Target(pid=program.pid)) as tracing:
        tracing.start()
        monkeypatch.setattr(ElfFile, "functions", endless)
        sinks = Sinks([LinesSink(lines, tracing.accounts, ["span_call"])])
        recording = Recording(tracing.tracers, [stream for stream, _ in tracing.streams], sinks, tracing.choice)
        recording.start()
        assert program.stdin
        program.stdin.writelines(f"{file}\n" for file in files)
        program.stdin.flush()
        assert begun.wait(DEADLINE_S)
        asked.clear()
        assert asked.wait(DEADLINE_S), "names wait for what is being read"
        stopping = threading.Thread(target=recording.stop)
        stopping.start()
        stopping.join(DEADLINE_S)
        has_ended = not stopping.is_alive()
        released.set()
        stopping.join()
        assert has_ended
        assert recording.rows and not recording.error
        (note,) = [note for note in tracing.notes() if note.startswith("functions not looked for: ")]
        assert note.split(": ")[1] in files and note.endswith(": the trace ended before they were found")
