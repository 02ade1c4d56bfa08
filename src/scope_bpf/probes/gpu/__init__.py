"""The state of NVIDIA GPUs, read through NVML: load, memory, temperature, power, clocks."""

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe, Sampler
from scope_bpf.catalogue.stream import PROCESS, Derived, Made, Stream
from scope_bpf.probes.gpu.guide import GUIDE
from scope_catalogue.shown import Counter, Latest, Shown, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import LatestRows, Sum, Table

_NAME = pa.dictionary(pa.int32(), pa.string())


def _sampler() -> Sampler:
    from scope_bpf.probes.gpu.nvml import NvmlSampler

    return NvmlSampler()


_DEVICE = {
    "device": Derived(Column("number of the GPU, as in NVML and nvidia-smi"), pa.int32()),
    "uuid": Derived(Column("permanent id of the GPU"), _NAME),
}

_GPU = Stream(
    "gpu",
    "the state of a GPU; values that the GPU or its driver does not report are absent",
    columns={},
    sampled=True,
    made=Made(
        derived=_DEVICE
        | {
            "name": Derived(Column("product name"), _NAME),
            "gpu_percent": Derived(
                Column("share of the driver's last sample period in which a kernel ran", "%"), pa.uint32()
            ),
            "memory_percent": Derived(
                Column("share of the same period in which memory was read or written", "%"), pa.uint32()
            ),
            "memory_used_bytes": Derived(Column("allocated device memory", "bytes"), pa.uint64()),
            "memory_total_bytes": Derived(Column("total device memory", "bytes"), pa.uint64()),
            "temperature_celsius": Derived(Column("temperature of the chip", "°C"), pa.int64()),
            "power_watts": Derived(Column("power drawn by the board", "W"), pa.float64()),
            "power_limit_watts": Derived(Column("power at which the GPU lowers its clocks", "W"), pa.float64()),
            "sm_clock_mhz": Derived(Column("clock of the multiprocessors (SMs)", "MHz"), pa.uint32()),
            "memory_clock_mhz": Derived(Column("clock of the memory", "MHz"), pa.uint32()),
            "slowed_by": Derived(Column("reasons for lowered clocks, separated by commas; empty: not lowered"), _NAME),
            "pcie_received": Derived(Column("received by the GPU over PCIe, over the last 20 ms", "B/s"), pa.uint64()),
            "pcie_sent": Derived(Column("sent by the GPU over PCIe, over the last 20 ms", "B/s"), pa.uint64()),
            "pcie_generation": Derived(Column("current PCIe generation of the link"), pa.uint32()),
            "pcie_width": Derived(Column("current number of PCIe lanes"), pa.uint32()),
            "ecc_corrected": Derived(Column("corrected memory errors since the driver was loaded"), pa.uint64()),
            "ecc_uncorrected": Derived(Column("uncorrected memory errors since the driver was loaded"), pa.uint64()),
            "xid_errors": Derived(Column("XID errors that the driver reported since the task started"), pa.uint64()),
        }
    ),
    shown=Shown(
        tables=(
            Table(
                ("device", "name"),
                (
                    Sum("gpu_percent"),
                    Sum("memory_percent"),
                    Sum("temperature_celsius"),
                    Sum("power_watts"),
                    Sum("sm_clock_mhz"),
                    Sum("slowed_by"),
                    Sum("pcie_received"),
                    Sum("pcie_sent"),
                    Sum("xid_errors"),
                    Sum("memory_used_bytes"),
                    Sum("memory_total_bytes"),
                ),
                ranked_by=("memory_used_bytes",),
            ),
        ),
        line=(
            "device",
            "gpu_percent",
            "memory_percent",
            "memory_used_bytes",
            "power_watts",
            "temperature_celsius",
            "name",
        ),
        timeline=Timeline(
            counters=tuple(
                Counter(name, by=("device",))
                for name in ("gpu_percent", "memory_used_bytes", "power_watts", "sm_clock_mhz")
            )
        ),
    ),
    labels=("device", "uuid", "name"),
    latest=Latest(  # one group per GPU: figures of different GPUs are never added up
        key=("device", "uuid"),
        by=("device", "name", "slowed_by", "uuid"),
        totals=(
            *("memory_used_bytes", "memory_total_bytes", "gpu_percent", "memory_percent", "temperature_celsius"),
            *("power_watts", "power_limit_watts", "sm_clock_mhz", "memory_clock_mhz", "pcie_received", "pcie_sent"),
            *("ecc_corrected", "ecc_uncorrected", "xid_errors"),
        ),
    ),
)

_GPU_PROCESS = Stream(
    "gpu_process",
    "memory that a process uses on a GPU, its context included; 0 after the process has freed all of it",
    columns={},
    sampled=True,
    made=Made(
        derived={
            "start_ns": Derived(
                Column(
                    "when the process started, since boot, rounded to 10 ms; 0: the process is not visible from here",
                    "ns",
                    identity=True,
                ),
                pa.uint64(),
            ),
            "pid": Derived(PROCESS["pid"], pa.int32()),
            "uid": Derived(PROCESS["uid"], pa.uint32()),
            "comm": Derived(PROCESS["comm"], _NAME),
        }
        | _DEVICE
        | {
            "kind": Derived(Column("compute or graphics"), _NAME),
            "used_bytes": Derived(Column("device memory", "bytes"), pa.uint64()),
        }
    ),
    shown=Shown(
        tables=(Table(("comm", "pid", "device", "kind"), (Sum("used_bytes"),)),),
        line=("used_bytes", "device", "kind"),
        timeline=Timeline(counters=(Counter("used_bytes", by=("device", "kind")),)),
    ),
    labels=("device", "uuid", "kind", "pid", "comm"),
    latest=Latest(
        key=("device", "uuid", "kind"),
        by=("comm", "device", "kind", "uuid"),
        totals=("used_bytes",),
        held=("used_bytes",),
    ),
)

_GPU_ERROR = Stream(
    "gpu_error",
    "one row per error that the driver reported",
    columns={},
    sampled=True,
    made=Made(
        derived=_DEVICE
        | {
            "kind": Derived(Column("xid, ecc_corrected or ecc_uncorrected"), _NAME),
            "xid": Derived(Column("XID number, as in the kernel log"), pa.uint64()),
            "meaning": Derived(Column("meaning of the XID number"), _NAME),
        }
    ),
    shown=Shown(tables=(LatestRows(("device", "kind", "xid", "meaning")),), line=("device", "kind", "xid", "meaning")),
)

PROBE = Probe(
    name="gpu",
    meaning="NVIDIA GPUs: utilization, memory by process, temperature, power, clocks, PCIe, errors",
    streams=(_GPU, _GPU_PROCESS, _GPU_ERROR),
    sampler=_sampler,
    guide=GUIDE,
)
