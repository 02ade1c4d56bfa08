"""Reads the state of GPUs from NVML, NVIDIA's management library.

A value is absent if the GPU, its driver or a container's permissions do not provide it, without affecting other values:
old drivers lack functions, laptop GPUs lack ECC. Sources: nvml.h of CUDA 13.0 for units and bits; docs.nvidia.com, "XID
errors", for the meanings.
"""

import ctypes
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml as nvml

from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.errors import NoDevice, NotSupported

log = logging.getLogger(__name__)

Row = dict[str, Any]

_SLOWED_BY = {
    nvml.nvmlClocksEventReasonGpuIdle: "idle",
    nvml.nvmlClocksEventReasonApplicationsClocksSetting: "application_clocks",
    nvml.nvmlClocksEventReasonSwPowerCap: "power_cap",
    nvml.nvmlClocksEventReasonHwSlowdown: "hardware",
    nvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
    nvml.nvmlClocksEventReasonSwThermalSlowdown: "thermal",
    nvml.nvmlClocksEventReasonHwThermalSlowdown: "hardware_thermal",
    nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power_brake",
    nvml.nvmlClocksEventReasonDisplayClockSetting: "display_clocks",
}
_PROCESSES = {
    "compute": nvml.nvmlDeviceGetComputeRunningProcesses,
    "graphics": nvml.nvmlDeviceGetGraphicsRunningProcesses,
}
_NOT_AVAILABLE = (2**32 - 1, 2**64 - 1)  # NVML_VALUE_NOT_AVAILABLE in both widths
_ERRORS = {
    nvml.nvmlEventTypeXidCriticalError: "xid",
    nvml.nvmlEventTypeSingleBitEccError: "ecc_corrected",
    nvml.nvmlEventTypeDoubleBitEccError: "ecc_uncorrected",
}
_XIDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    32: "invalid or corrupted push buffer stream",
    38: "driver firmware error",
    43: "GPU stopped processing",
    45: "preemptive cleanup after an error",
    48: "double-bit ECC error",
    61: "internal micro-controller breakpoint or warning",
    62: "internal micro-controller halt",
    63: "ECC page retirement or row remapping",
    64: "ECC page retirement or row remapping failed",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP remote procedure call timed out",
    120: "GSP error",
}


class NvmlSampler:
    """Samples all GPUs of the driver. A sample takes about 40 ms per GPU: NVML measures PCIe for 20 ms per direction.

    Raises:
        NoDevice: no driver, or no GPU.
        NotSupported: NVML exists but does not work.
    """

    def __init__(self) -> None:
        try:
            nvml.nvmlInit()
        except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
            raise NoDevice("no NVIDIA driver on this host") from None
        except nvml.NVMLError as error:
            raise NotSupported(f"NVML does not start: {error}; `nvidia-smi` may say more") from None
        count = _asked(nvml.nvmlDeviceGetCount) or 0
        handles = [_asked(nvml.nvmlDeviceGetHandleByIndex, number) for number in range(count)]
        self._devices = {number: handle for number, handle in enumerate(handles) if handle is not None}
        if not self._devices:
            nvml.nvmlShutdown()
            raise NoDevice("this host has an NVIDIA driver but no GPU")
        self._fixed = {number: _fixed(number, handle) for number, handle in self._devices.items()}
        self._events = _asked(nvml.nvmlEventSetCreate)
        self._xids = dict.fromkeys(self._devices, 0)
        self._holding: list[Row] = []  # rows of processes in the last sample
        for number, handle in self._devices.items():
            self._listen(number, handle)

    @property
    def source(self) -> str:
        """NVML and the driver's version."""
        return f"NVML of driver {_asked(nvml.nvmlSystemGetDriverVersion)}"

    def _listen(self, number: int, handle: Any) -> None:
        wanted = (_asked(nvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & sum(_ERRORS)
        try:
            nvml.nvmlDeviceRegisterEvents(handle, wanted, self._events)
        except nvml.NVMLError as error:
            log.warning("a GPU does not report errors", extra={"device": number, "reason": str(error)})
            self._xids.pop(number)

    def sample(self) -> dict[str, list[Row]]:
        """The current rows of the probe's streams."""
        errors = self._errors()
        for row in errors:
            if row["kind"] == "xid" and row.get("device") in self._xids:
                self._xids[row["device"]] += 1
        before, self._holding = self._holding, [row for number in self._devices for row in self._processes(number)]
        held = {_identity(row) for row in self._holding}
        gone = [row | {"used_bytes": 0} for row in before if _identity(row) not in held]
        return {
            "gpu": [
                self._fixed[number] | _state(handle) | {"xid_errors": self._xids.get(number)}
                for number, handle in self._devices.items()
            ],
            "gpu_process": self._holding + gone,
            "gpu_error": errors,
        }

    def _processes(self, number: int) -> list[Row]:
        """The current processes of a GPU; those of the last sample if NVML does not answer."""
        device = {"device": number, "uuid": self._fixed[number]["uuid"]}
        found = []
        for kind, ask in _PROCESSES.items():
            answer = _asked(ask, self._devices[number])
            if answer is None:
                found += [row for row in self._holding if (row["device"], row["kind"]) == (number, kind)]
            else:
                kinds = {"kind": kind}
                found += [device | kinds | _process(one.pid) | {"used_bytes": one.usedGpuMemory} for one in answer]
        return found

    def _errors(self) -> list[Row]:
        rows: list[Row] = []
        while self._events is not None and (event := _asked(nvml.nvmlEventSetWait_v2, self._events, 0)) is not None:
            handles = {_address(handle): number for number, handle in self._devices.items()}
            number = handles.get(_address(event.device))  # NVML has no index for a lost GPU
            kind = _ERRORS.get(event.eventType)
            row: Row = {} if number is None else {"device": number, "uuid": self._fixed[number]["uuid"]}
            if kind == "xid":
                row |= {"xid": event.eventData, "meaning": _XIDS.get(event.eventData)}
            rows.append(row | {"kind": kind})
        return rows

    def close(self) -> None:
        """Closes NVML."""
        if self._events is not None:
            _asked(nvml.nvmlEventSetFree, self._events)
        _asked(nvml.nvmlShutdown)


def _asked(function: Callable[..., Any], *arguments: Any) -> Any:
    """NVML's answer; None if it has none."""
    try:
        answer = function(*arguments)
    except (nvml.NVMLError, UnicodeDecodeError):
        return None
    return None if isinstance(answer, int) and answer in _NOT_AVAILABLE else answer


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _fixed(number: int, handle: Any) -> Row:
    return {
        "device": number,
        "uuid": _asked(nvml.nvmlDeviceGetUUID, handle),
        "name": _asked(nvml.nvmlDeviceGetName, handle),
    }


def _state(handle: Any) -> Row:
    used = _asked(nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _asked(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if memory is None:  # before driver 510; counts memory reserved by the driver as used
        memory = _asked(nvml.nvmlDeviceGetMemoryInfo, handle)
    reasons = _asked(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:  # the function's name before driver 535
        reasons = _asked(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    corrected, uncorrected = (
        _asked(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, nvml.NVML_VOLATILE_ECC)
        for kind in (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    )
    return {
        "gpu_percent": used and used.gpu,
        "memory_percent": used and used.memory,
        "memory_used_bytes": memory and memory.used,
        "memory_total_bytes": memory and memory.total,
        "temperature_celsius": _asked(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "power_watts": _scaled(_asked(nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
        "power_limit_watts": _scaled(_asked(nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
        "sm_clock_mhz": _asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": _asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        "slowed_by": None if reasons is None else ",".join(name for bit, name in _SLOWED_BY.items() if reasons & bit),
        "pcie_received": _scaled(_asked(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_RX_BYTES), 1024),
        "pcie_sent": _scaled(_asked(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_TX_BYTES), 1024),
        "pcie_generation": _asked(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "pcie_width": _asked(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "ecc_corrected": corrected,
        "ecc_uncorrected": uncorrected,
    }


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _process(pid: int) -> Row:
    """The identity of a process, if it still exists and is visible from here. User: proc(5), status."""
    try:
        stat = stat_of(pid)
        status = Path(f"/proc/{pid}/status").read_bytes().splitlines()
        owners = next(line for line in status if line.startswith(b"Uid:"))
    except (OSError, StopIteration):
        return {"pid": pid, "start_ns": 0}
    return {"pid": pid, "start_ns": stat.start_ticks * TICK_NS, "uid": int(owners.split()[1]), "comm": stat.comm}


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("device", "kind", "pid", "start_ns"))
