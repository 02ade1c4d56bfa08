"""The time that a program tells of itself while a probe watches it."""

import subprocess

from bench.measure import ns_per_call
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.target import Target
from scope_catalogue.options import parse_options


def ns_under(probe: Probe | None, words: list[str]) -> float:
    """Runs a program once the probe records it; returns the ns that it prints. None: without a probe."""
    command = ["sh", "-c", "read go; exec " + " ".join(words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if probe is None:
            return ns_per_call(process.communicate("\n")[0])
        with Tracer(probe, parse_options(probe.options, {}), Target(pid=process.pid)) as tracer:
            tracer.start()
            print(file=process.stdin, flush=True)
            while process.poll() is None:
                tracer.poll(50)
        return ns_per_call(process.communicate()[0])
