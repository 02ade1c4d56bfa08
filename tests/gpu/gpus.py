"""Samples of the `gpu` probe on this machine. Values that NVML does not offer are absent."""

from tests.gpu.report import Report

from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.errors import NoDevice
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options


def tell_gpus(report: Report) -> None:
    """Takes and prints one sample."""
    report.title("the state of the GPUs")
    probe = probe_named("gpu")
    with Tracer(probe, parse_options(probe.options, {})) as looking:
        try:
            looking.start()
        except NoDevice as error:
            report.fact(str(error))
            return
        report.fact(f"read from {looking.attach_point}")
        rows = [row for batch in looking.poll(0) for row in to_arrow(batch).to_pylist()]
    report.check("every GPU tells its memory", True, all(row.get("memory_used_bytes", 1) is not None for row in rows))
    for row in rows:
        del row["ktime_ns"]
        report.fact(", ".join(f"{name} {value}" for name, value in row.items() if value is not None))
        report.fact(f"absent: {', '.join(name for name, value in row.items() if value is None) or 'nothing'}")
