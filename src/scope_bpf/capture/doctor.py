"""Checks each probe on this host: starts it as a task would, and says which attach point works and why."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Hooks, Probe
from scope_bpf.catalogue.target import Target
from scope_bpf.errors import NoDevice, ScopeBpfError
from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import parse_options, trial
from scope_catalogue.stream import Mode


@dataclass(frozen=True)
class Tried:
    """An option, as NAME=VALUE, with which a probe was tried, too.

    Attributes:
        reason: why the probe cannot run so; empty: it can.
    """

    option: str
    reason: str


@dataclass(frozen=True)
class Finding:
    """Whether a probe can run here, its attach point, and the reason.

    Attributes:
        no_device: the host has no device for the probe, so there is nothing to repair.
        unseen: what the probe cannot record so.
        tried: what else was tried besides the default options.
    """

    probe: str
    available: bool
    attach_point: str
    reason: str
    no_device: bool = False
    unseen: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()


def examine_all(probes: Iterable[Probe], *, options: bool = False) -> Iterator[Finding]:
    """Examines the probes, on all CPUs: most of the work is the kernel's, and done without Python's lock.

    Yields the findings in the order of the probes, each as soon as it is known.
    """
    with _small_process() as pid, ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(partial(_examine, pid=pid, options=options), probes)


def examine(probe: Probe, *, options: bool = False) -> Finding:
    """Starts the probe for a short time with its default options.

    Args:
        options: also with each option that loads other programs; this takes as long again for each.
    """
    with _small_process() as pid:
        return _examine(probe, pid=pid, options=options)


@contextmanager
def _small_process() -> Iterator[int]:
    """A process that waits, which the probes are tried on, so that no other one is looked at, or slowed.

    It is a Python, as one probe needs, with little besides. Of this process, which has large libraries, probes with
    stacks would read the unwinding tables of all: half of the work of an examination.
    """
    command = (sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()  # its libraries are loaded
        yield process.pid  # the block's end closes its input, which ends it


def _examine(probe: Probe, *, pid: int, options: bool) -> Finding:
    target = Target() if probe.sampler else Target(pid=pid)
    try:
        with _tracer(probe, {}, target) as tracer:
            tracer.start()
            refused, attach_point, unseen = "; ".join(tracer.refused), tracer.attach_point, tracer.unseen
    except ScopeBpfError as error:
        return Finding(probe.name, False, "", str(error), isinstance(error, NoDevice))
    reason = f"better alternatives do not work here: {refused}" if refused else "the best alternative"
    tried = tuple(_tried(probe, *other, target) for other in _others(probe)) if options else ()
    return Finding(probe.name, True, attach_point, reason, unseen=tuple(unseen.values()), tried=tried)


def _tracer(probe: Probe, options: Mapping[str, Any], target: Target) -> Tracer:
    small = {} if probe.sampler else {"ring_bytes": 4096}
    return Tracer(probe, parse_options(probe.options, {**trial(probe.options), **small, **options}), target)


def _others(probe: Probe) -> Iterator[tuple[str, Any]]:
    """Options with values that load other programs than the default ones, or programs with other constants; of lists,
    which may have many words, only the former."""
    default = parse_options(probe.options, trial(probe.options))
    for option in probe.options:
        for value in (False, True) if option.type == "boolean" else option.choices:
            try:
                given = parse_options(probe.options, {**trial(probe.options), option.name: value})
            except InvalidOption:  # with this value, another option must be given
                continue
            if _programs(probe, given) != _programs(probe, default) or (
                option.type != "names" and str(probe.constants(given)) != str(probe.constants(default))
            ):
                yield option.name, value


def _programs(probe: Probe, options: Mapping[str, Any]) -> tuple[Mode, Hooks]:
    return probe.mode_of(options), probe.hooks(options)


def _tried(probe: Probe, name: str, value: Any, target: Target) -> Tried:
    text = f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    try:
        with _tracer(probe, {name: value}, target) as tracer:
            tracer.start()
    except ScopeBpfError as error:
        return Tried(text, str(error))
    return Tried(text, "")
