"""The resolver of the CUDA probe: names of kernels, and stacks."""

import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.stacks import StackNames
from scope_bpf.probes.cuda import PROBE
from scope_bpf.probes.cuda.kernel_names import KernelNames


class CudaResolver:
    """The resolved columns of the probe's streams; see `scope_bpf.code.resolver.Resolver`."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        self._kernels = KernelNames(object_, modules, PROBE.key_layout("cuda_names").dtype)
        self._stacks = StackNames(object_, modules.history)

    def add_module(self, module: Module) -> bool:
        """Keeps a file if it has kernels."""
        self._stacks.add_module(module)
        return self._kernels.add_module(module)

    def drop_module(self, module: Module) -> None:
        """Forgets a file and its kernels."""
        self._kernels.drop_module(module)
        self._stacks.drop_module(module)

    def find_functions(self, module: Module) -> dict[str, int]:
        """The functions that launch kernels, in a stripped program with a statically linked runtime."""
        return self._kernels.find_functions(module)

    def add_process(self, process: Process) -> None:
        """Reads the process's handles in the background."""
        self._kernels.add_process(process)

    def notes(self) -> list[str]:
        """Which files have a stripped runtime of their own; which interpreters' frames cannot be walked."""
        return self._kernels.notes() + self._stacks.notes()

    def settle(self, timeout_s: float) -> None:
        """Waits until the handles of added processes were read, and their code can be unwound; at most twice
        `timeout_s`."""
        self._kernels.settle(timeout_s)
        self._stacks.settle(timeout_s)

    def close(self) -> None:
        """Stops reading files."""
        self._kernels.close()
        self._stacks.close()

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's resolved columns."""
        kernels = self._kernels.columns(rows) if "kernel" in stream.made.resolved else {}
        return kernels | self._stacks.columns(stream, rows)
