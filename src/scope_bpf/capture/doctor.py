"""Checks each probe on this host: starts it as a task would, and says which attach point works and why."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Probe
from scope_bpf.errors import NoDevice, ScopeBpfError
from scope_catalogue.options import parse_options, trial


@dataclass(frozen=True)
class Finding:
    """Whether a probe can run here, its attach point, and the reason.

    Attributes:
        no_device: the host has no device for the probe, so there is nothing to repair.
        unseen: what the probe cannot record, on any host.
    """

    probe: str
    available: bool
    attach_point: str
    reason: str
    no_device: bool = False
    unseen: tuple[str, ...] = ()


def examine_all(probes: Iterable[Probe]) -> Iterator[Finding]:
    """Examines the probes, on all CPUs: most of the work is the kernel's, and done without Python's lock.

    Yields the findings in the order of the probes, each as soon as it is known.
    """
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(examine, probes)


def examine(probe: Probe) -> Finding:
    """Starts the probe for a short time."""
    small = {} if probe.sampler else {"ring_bytes": 4096}
    with Tracer(probe, parse_options(probe.options, trial(probe.options) | small)) as tracer:
        try:
            tracer.start()
        except ScopeBpfError as error:
            return Finding(probe.name, False, "", str(error), isinstance(error, NoDevice))
        refused = "; ".join(tracer.refused)
        reason = f"better alternatives do not work here: {refused}" if refused else "the best alternative"
        return Finding(probe.name, True, tracer.attach_point, reason, unseen=tuple(probe.unseen.values()))
