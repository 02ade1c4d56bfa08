"""What this host allows: tries every probe, as a task would, and says which attach point was taken and why."""

from dataclasses import dataclass

from scope_bpf.catalogue import Probe
from scope_bpf.errors import ScopeBpfError
from scope_bpf.options import parse_options
from scope_bpf.tracer import Tracer


@dataclass(frozen=True)
class Finding:
    """Whether a probe can run here, the attach point it takes, and why that one or why none."""

    probe: str
    available: bool
    attach_point: str
    reason: str


def examine(probe: Probe) -> Finding:
    """Loads and attaches the probe for a moment."""
    with Tracer(probe, parse_options(probe.options, {"ring_bytes": 4096})) as tracer:
        try:
            tracer.start()
        except ScopeBpfError as error:
            return Finding(probe.name, False, "", str(error))
        refused = "; ".join(tracer.refused)
        reason = f"better ones do not work here: {refused}" if refused else "the best this probe has"
        return Finding(probe.name, True, tracer.attach_point, reason)
