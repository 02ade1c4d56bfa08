"""What runs a probe: programs in the kernel, or looks at intervals."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from scope_bpf.capture.sampled import SampledTracer
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target

RunningProbe = Tracer | SampledTracer


def run_probe(
    probe: Probe,
    options: Mapping[str, Any],
    target: Target | None = None,
    excluded: Callable[[], Collection[int]] = tuple,
    command: str = "",
    *,
    books: Path | None = None,
) -> RunningProbe:
    """What runs this probe, not started yet; see `Tracer` for the arguments."""
    if probe.sampler:
        return SampledTracer(probe, options, target)
    return Tracer(probe, options, target, excluded, command, books=books)
