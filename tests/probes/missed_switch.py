"""Records a program while the tracer misses one of its switches, which the kernel does now and then under load."""

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.probes.recording import Recording

from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.batch import Batch, RawBatch
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

_SWITCHES = "where_switch"  # the program of bpf/include/where.bpf.h


def record_with_a_missed_switch(
    name: str, options: Mapping[str, Any], command: Sequence[str]
) -> tuple[Recording, dict[str, int]]:
    """Rows of a probe, and the number of incomplete ones by stream.

    The command stops itself (SIGSTOP) three times, and is continued. The tracer misses its first return to a CPU and
    its second switch away from one, and sees all of the third.
    """
    probe, recorded = probe_named(name), Recording()
    parsed, held = parse_options(probe.options, dict(options)), HeldCommand(command)

    def take(batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert isinstance(batch, RawBatch)
            recorded.add(batch)

    try:
        with Tracer(probe, parsed, Target(pid=held.pid), command=held.path) as tracer:
            tracer.start()
            held.release()
            assert tracer._programs
            programs = tracer._programs.object
            for change in (lambda: _detach(programs, _SWITCHES), lambda: programs.attach(_SWITCHES), bool):
                while _state(held.pid) != "T":
                    take(tracer.poll(10))
                change()
                os.kill(held.pid, signal.SIGCONT)
                while _state(held.pid) == "T":
                    take(tracer.poll(10))
            while held.poll() is None:
                take(tracer.poll(10))
            take(tracer.finish())
            incomplete = {stream: account.incomplete for stream, account in tracer.accounts().items()}
    finally:
        held.close()
    return recorded, incomplete


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().split()[2]


def _detach(object_: BpfObject, program: str) -> None:
    fd = object_.program_fd(program)
    for link in object_._links:
        if link.program_fd == fd:
            link.close()
