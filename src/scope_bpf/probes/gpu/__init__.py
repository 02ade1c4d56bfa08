"""The state of NVIDIA's GPUs: what keeps them busy, full, hot and slow, through NVML."""

import pyarrow as pa

from scope_bpf.catalogue.probe import Probe, Sampler
from scope_bpf.catalogue.shown import Counter, Latest, Live, Timeline
from scope_bpf.catalogue.stream import PROCESS, Column, Derived, Mode, Stream

_NAME = pa.dictionary(pa.int32(), pa.string())


def _sampler() -> Sampler:
    from scope_bpf.probes.gpu.nvml import NvmlSampler

    return NvmlSampler()


_DEVICE = {
    "device": Derived(Column("number of the GPU, as NVML and nvidia-smi count"), pa.int32()),
    "uuid": Derived(Column("its id, which stays"), _NAME),
}

_GPU = Stream(
    "gpu",
    "the state of a GPU; what it or its driver cannot tell is absent",
    columns={},
    mode=Mode.SAMPLES,
    derived=_DEVICE
    | {
        "name": Derived(Column("the product's name"), _NAME),
        "gpu_percent": Derived(Column("of the last sample's time in which a kernel ran", "%"), pa.uint32()),
        "memory_percent": Derived(Column("of that time in which memory was read or written", "%"), pa.uint32()),
        "memory_used_bytes": Derived(Column("device memory that is allocated", "bytes"), pa.uint64()),
        "memory_total_bytes": Derived(Column("device memory that there is", "bytes"), pa.uint64()),
        "temperature_celsius": Derived(Column("of the chip", "°C"), pa.int64()),
        "power_watts": Derived(Column("drawn by the board", "W"), pa.float64()),
        "power_limit_watts": Derived(Column("at which clocks are lowered", "W"), pa.float64()),
        "sm_clock_mhz": Derived(Column("of the multiprocessors", "MHz"), pa.uint32()),
        "memory_clock_mhz": Derived(Column("of the memory", "MHz"), pa.uint32()),
        "slowed_by": Derived(Column("what keeps clocks low, names joined by commas; empty: nothing"), _NAME),
        "pcie_received": Derived(Column("by the GPU over PCIe, in the 20 ms before", "B/s"), pa.uint64()),
        "pcie_sent": Derived(Column("by the GPU over PCIe, in the 20 ms before", "B/s"), pa.uint64()),
        "pcie_generation": Derived(Column("of the link as it is now"), pa.uint32()),
        "pcie_width": Derived(Column("lanes of the link as it is now"), pa.uint32()),
        "ecc_corrected": Derived(Column("errors of memory since the driver was loaded"), pa.uint64()),
        "ecc_uncorrected": Derived(Column("errors of memory since the driver was loaded"), pa.uint64()),
        "xid_errors": Derived(Column("errors that the driver reported since the task's start"), pa.uint64()),
    },
    live=Live(
        by=("device", "name"),
        totals=(
            *("gpu_percent", "memory_percent", "temperature_celsius", "power_watts", "sm_clock_mhz", "slowed_by"),
            *("pcie_received", "pcie_sent", "xid_errors", "memory_used_bytes", "memory_total_bytes"),
        ),
    ),
    line=("device", "gpu_percent", "memory_percent", "memory_used_bytes", "power_watts", "temperature_celsius", "name"),
    timeline=Timeline(
        counters=tuple(
            Counter(name, by=("device",))
            for name in ("gpu_percent", "memory_used_bytes", "power_watts", "sm_clock_mhz")
        )
    ),
    gauge=True,
    labels=("device", "uuid", "name"),
    latest=Latest(  # a group is one GPU: its figures are added to no other's
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
    "what a process holds of a GPU's memory, its context included; 0 when it has let go",
    columns={},
    mode=Mode.SAMPLES,
    derived={
        "start_ns": Derived(
            Column("when it started, since boot, to 10 ms; 0: not to be seen from here", "ns"), pa.uint64()
        ),
        "pid": Derived(PROCESS["pid"], pa.int32()),
        "uid": Derived(PROCESS["uid"], pa.uint32()),
        "comm": Derived(PROCESS["comm"], _NAME),
    }
    | _DEVICE
    | {
        "kind": Derived(Column("compute or graphics"), _NAME),
        "used_bytes": Derived(Column("device memory", "bytes"), pa.uint64()),
    },
    live=Live(by=("comm", "pid", "device", "kind"), totals=("used_bytes",)),
    line=("used_bytes", "device", "kind"),
    timeline=Timeline(counters=(Counter("used_bytes", by=("device", "kind")),)),
    gauge=True,
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
    "an error that the driver reported",
    columns={},
    mode=Mode.SAMPLES,
    derived=_DEVICE
    | {
        "kind": Derived(Column("xid, ecc_corrected or ecc_uncorrected"), _NAME),
        "xid": Derived(Column("the number, as in the kernel's log"), pa.uint64()),
        "meaning": Derived(Column("what the number says"), _NAME),
    },
    live=Live(latest=("device", "kind", "xid", "meaning")),
    line=("device", "kind", "xid", "meaning"),
)

PROBE = Probe(
    name="gpu",
    meaning="NVIDIA GPUs: utilisation, memory by process, temperature, power, clocks, PCIe, errors",
    streams=(_GPU, _GPU_PROCESS, _GPU_ERROR),
    sampler=_sampler,
)
