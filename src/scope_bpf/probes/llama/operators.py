"""Which kind of operator the functions of ggml compute, by their names, for the samples that BPF programs take."""

import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from scope_bpf.binding.map import fill_array
from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module
from scope_bpf.code.symbols import Symbols
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import enum_values, record_dtype
from scope_bpf.probes.llama.nameless import kinds_by_callers

# Of a symbol, mangled or not; the first kind that fits. Read in ggml-cpu of 2024 to 2026.
_KINDS = {
    "BARRIER": re.compile(r"ggml_barrier|ggml_graph_compute_secondary|ggml_graph_compute_(poll|check)"),
    "MATMUL": re.compile(
        r"mul_mat|vec_dot|ge(mm|mv)_|gemm\d|tinyBLAS|quantize_(row|mat)|out_prod|amx|kleidiai|tensor_traits|tiled_"
    ),
    "ATTENTION": re.compile(r"flash_attn|soft_max|rope|diag_mask"),
    "COPY": re.compile(r"compute_forward_(dup|cpy|cont|get_rows|set_rows|concat|repeat|set|pad|acc)(?![a-z])|ggml_cpy"),
    "ELEMENTWISE": re.compile(r"ggml_compute_forward_|ggml_vec_|binary_op|unary_op"),
}
_PREFIX, _OTHER = "LLAMA_", "OTHER"
_PADDING = 64  # bytes between functions
_COMPUTES = "ggml_compute_forward"  # in the name of a function of every file that computes

# Files all of whose code is of one kind.
_LIBRARIES = {
    "MATMUL": re.compile(r"lib(openblas|blas|cblas|mkl_|blis|flexiblas|nvpl_blas)"),
    "BARRIER": re.compile(r"lib([gi]?omp\d*)[-.]"),
}


def kind_of(symbol: str) -> str:
    """The kind of a function of a file that computes."""
    return next((kind for kind, names in _KINDS.items() if names.search(symbol)), _OTHER)


def computes(module: Module) -> bool:
    """Whether a file contains operators of ggml, or what they call."""
    symbols = _symbols(module)
    return bool(_library(module) or (symbols and symbols.containing(_COMPUTES)))


def ranges_of(module: Module) -> list[tuple[int, str]]:
    """Offsets in a file that computes at which the kind of its code changes, in order, with the kind from there on."""
    whole, symbols = _library(module), _symbols(module)
    if whole or not symbols:
        return [(0, whole or _OTHER)]
    kinds = {address: kind_of(name) for name, address in symbols.containing("")}
    spans = list(zip(*(part.tolist() for part in symbols.spans), strict=True))
    nameless_next = module.elf.symbols is None  # a compiler emits static functions before those that call them
    if nameless_next:
        nameless = kinds_by_callers(module.elf, kinds, _OTHER)
        kinds |= {start: kind for (start, _), kind in nameless.items()}
        spans = sorted([*spans, *nameless])
    found, end = [(0, _OTHER)], 0
    for start, past in spans:
        offset = module.elf.offset_of(start)
        if offset is None or start < end:  # another name of the same function
            continue
        between = kinds[start] if nameless_next and end else _OTHER
        if start > end + _PADDING and found[-1][1] != between:
            found.append((offset - (start - end), between))
        if kinds[start] != found[-1][1]:
            found.append((offset, kinds[start]))
        end = past
    return found


def _library(module: Module) -> str | None:
    name = Path(module.path).name
    return next((kind for kind, names in _LIBRARIES.items() if names.match(name)), None)


def _symbols(module: Module) -> Symbols | None:
    return module.elf.symbols or module.elf.dynamic_symbols


class Operators:
    """The resolver of `llama`; see `scope_bpf.code.resolver.Resolver`.

    It computes no columns: it tells the BPF programs of which kind the functions of a file are.
    """

    def __init__(self, object_: BpfObject) -> None:
        self._files, self._ranges = object_.map("llama_files"), object_.map("llama_ranges")
        self._file, self._range = record_dtype(object_.btf, "llama_file"), record_dtype(object_.btf, "llama_range")
        self._numbers = enum_values(object_.btf, "llama_operator")
        self._lock = threading.Lock()
        self._free = [(0, self._ranges.max_entries)]  # first and count
        self._places: dict[Module, tuple[int, int]] = {}
        self._notes: set[str] = set()

    def add_module(self, module: Module) -> bool:
        """Keeps a file that computes."""
        return computes(module)

    def find_functions(self, module: Module) -> dict[str, int]:
        """Writes the kinds of a file's functions. There are no functions to find."""
        try:
            ranges = ranges_of(module)
            with self._lock:
                self._put(
                    module, np.array([(at, self._numbers[_PREFIX + kind], 0) for at, kind in ranges], self._range)
                )
        except (KernelError, OSError) as error:
            self._notes.add(f"{module.path}: what it computes is unknown: {error}")
        return {}

    def _put(self, module: Module, ranges: Rows) -> None:
        place = next((one for one in self._free if one[1] >= len(ranges)), None)
        if not place:
            self._notes.add(f"{module.path}: what it computes is unknown: there is no room for {len(ranges):,} ranges")
            return
        first, room = place
        fill_array(self._ranges.fd, ranges, first)
        self._files.update(_key(module), np.array((first, len(ranges)), self._file).tobytes())
        self._free.remove(place)
        self._free.append((first + len(ranges), room - len(ranges)))
        self._places[module] = first, len(ranges)

    def drop_module(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        with self._lock:
            place = self._places.pop(module, None)
            if place:
                self._files.delete(_key(module))
                self._free.insert(0, place)

    def add_process(self, process: Process) -> None:
        """Nothing: kinds belong to files."""

    def notes(self) -> list[str]:
        """Of which files the kinds of functions are unknown."""
        return sorted(self._notes)

    def settle(self, timeout_s: float) -> None:
        """Nothing: files are read at once, or by the thread that attaches."""

    def close(self) -> None:
        """Nothing is left open."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """No columns."""
        return {}


def _key(module: Module) -> bytes:
    return module.inode.to_bytes(8, "little")
