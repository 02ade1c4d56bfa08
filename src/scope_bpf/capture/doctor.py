"""What this host allows: tries every probe, as a task would, and says which attach point was taken and why."""

from dataclasses import dataclass

from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.options import parse_options
from scope_bpf.catalogue.probe import Probe
from scope_bpf.errors import NoDevice, ScopeBpfError


@dataclass(frozen=True)
class Finding:
    """Whether a probe can run here, the attach point it takes, and why that one or why none.

    Attributes:
        no_device: the host has nothing that the probe is about; it lacks nothing that could be mended.
    """

    probe: str
    available: bool
    attach_point: str
    reason: str
    no_device: bool = False


def examine(probe: Probe) -> Finding:
    """Starts the probe for a moment."""
    small = {} if probe.sampler else {"ring_bytes": 4096}
    with Tracer(probe, parse_options(probe.options, small)) as tracer:
        try:
            tracer.start()
        except ScopeBpfError as error:
            return Finding(probe.name, False, "", str(error), isinstance(error, NoDevice))
        refused = "; ".join(tracer.refused)
        reason = f"better ones do not work here: {refused}" if refused else "the best this probe has"
        return Finding(probe.name, True, tracer.attach_point, reason)
