"""What people should know about the probe `gpu`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace gpu --duration 1",
            "the state of each GPU, and GPU memory by process",
        ),
        Example(
            "scope trace gpu --json --duration 1",
            "the same as JSON",
        ),
    ),
    notes=(
        "Each second (`-o interval_ms=`) NVML is asked for utilisation, memory, temperature, power, clocks, PCIe "
        "traffic, and ECC and XID errors.",
        "While a `gpu` task runs (`scope start local gpu`), the agent exports the same values for Prometheus: "
        "`/metrics` on port 8473.",
        "`scope states gpu` shows the last known state of each GPU, `scope states gpu_process` the GPU memory of "
        "each process.",
    ),
    limits=(
        "It needs an NVIDIA driver. On a host without one, `scope trace gpu` says so and ends with status 1.",
        "A value that a GPU or its driver does not report is `null` in rows, a dash in tables, and absent in "
        "`/metrics`.",
    ),
)
