"""The resolver of `span`: names of functions, the kept numbers as text, and stacks."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.place import Usdt
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.history import History
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.stacks import StackResolver
from scope_bpf.probes.span.declaration import TYPES, Declaration, SpanPlace
from scope_catalogue.stream import Mode

_HEX = np.array([f"{byte:02x}" for byte in range(256)], "S2")


class SpanResolver(StackResolver):
    """The resolved columns of the probe's streams; see `scope_bpf.code.resolver.Resolver`."""

    def __init__(self, object_: BpfObject, modules: Modules, places: Sequence[SpanPlace]) -> None:
        super().__init__(object_, modules)
        self._history = modules.history
        self._declarations = [place.declaration for place in places]

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's columns `function` and `file`; of events also `args` and `stack`."""
        columns = super().resolve(stream, rows) | _functions(self._history, stream, rows, self._declarations)
        if "args" in stream.made.resolved:
            columns["args"] = _arguments(self._declarations, rows)
        return columns


def _functions(
    history: History, stream: Stream, rows: Rows, declarations: Sequence[Declaration]
) -> dict[str, pa.Array]:
    """The function at each row's address, as its process had it mapped then."""
    history.catch_up_to(int(rows["ktime_ns"].max(initial=0)))
    names = ("pid", "start_ns", "address", "place")
    keys = np.zeros(len(rows), [*((name, rows.dtype[name]) for name in names), ("age", "<i8")])
    for name in names:
        keys[name] = rows[name]
    if stream.mode is Mode.EVENTS:  # a summary's rows are from its whole interval
        keys["age"] = history.ages(rows)
    _, first, indices = np.unique(keys, return_index=True, return_inverse=True)
    found = [_function_at(history, declarations, rows[index]) for index in first.tolist()]
    functions, files = zip(*found, strict=True) if found else ((), ())
    taken = pa.array(indices.astype(np.int32))
    return {
        "function": pa.array(functions, pa.string()).take(taken).dictionary_encode(),
        "file": pa.array(files, pa.string()).take(taken).dictionary_encode(),
    }


def _function_at(history: History, declarations: Sequence[Declaration], row: Rows) -> tuple[str | None, str | None]:
    pid, start_ns, address, time_ns = (int(row[name]) for name in ("pid", "start_ns", "address", "ktime_ns"))
    process = history.following(pid, start_ns)
    if process and not process.at(address, time_ns):
        history.catch_up(pid)
    there = process.at(address, time_ns) if process else None
    if not there or not there.module:
        return None, None
    offset = address - there.start + there.offset
    at = declarations[int(row["place"])].at
    if isinstance(at, Usdt):
        return _usdt_name(there.module, offset, at), there.module.path
    return there.module.name_at(offset) or there.module.place_of(offset), there.module.path


def _usdt_name(module: Module, offset: int, at: Usdt) -> str | None:
    """The name of the USDT probe with a site at an offset in a file: that for which the place stands."""
    there = module.usdt_sites.get(offset, ())
    named = (site for site in there if fnmatchcase(site.provider, at.provider) and fnmatchcase(site.name, at.name))
    return next((site.full_name for site in named), None)


def _arguments(declarations: Sequence[Declaration], rows: Rows) -> pa.Array:
    """The kept numbers of each row, as NAME=VALUE separated by blanks; null if there are none."""
    order, parts = [], []
    for place in np.unique(rows["place"]).tolist():
        chosen = np.flatnonzero(rows["place"] == place)
        order.append(chosen)
        parts.append(_of_place(declarations[place], rows[chosen]))
    if not parts:
        return pa.nulls(0, pa.string())
    back = np.argsort(np.concatenate(order), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(back))


def _of_place(declaration: Declaration, rows: Rows) -> pa.Array:
    texts = []
    for number, kept in enumerate(declaration.values):
        raw = np.ascontiguousarray(rows[f"value{number}"])
        known = (rows["kept"] >> number & 1).astype(bool)
        text = pc.if_else(pa.array(known), _texts(kept.type, raw), None)
        texts.append(pc.binary_join_element_wise(f"{kept.name}=", text, " ", ""))
    if not texts:
        return pa.nulls(len(rows), pa.string())
    # Not null_handling="skip": pyarrow 26 then leaves out the rows that have only nulls.
    joined = pc.binary_join_element_wise(*texts, "", null_handling="replace", null_replacement="")
    return pc.if_else(pc.equal(joined, ""), None, pc.utf8_rtrim(joined, " "))


def _texts(type_: str, raw: Rows) -> pa.Array:
    """Numbers as text. Registers and memory hold them in their lowest bytes.

    Args:
        raw: shape (rows,), uint64.
    """
    if type_ == "ptr":
        return _hexadecimal(raw)
    dtype = TYPES[type_]
    values = raw.view(dtype)[:: raw.itemsize // dtype.itemsize]
    if type_ == "bool":
        return pc.if_else(pa.array(values != 0), "true", "false")
    return pc.cast(pa.array(np.ascontiguousarray(values)), pa.string())


def _hexadecimal(values: Rows) -> pa.Array:
    digits = _HEX[values.astype(">u8").view(np.uint8)].view("S16")
    trimmed = pc.utf8_ltrim(pa.array(digits.astype("U16")), "0")
    return pc.binary_join_element_wise("0x", pc.if_else(pc.equal(trimmed, ""), "0", trimmed), "")
