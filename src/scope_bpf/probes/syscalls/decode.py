"""Arguments and results as text, for whole batches: rows are taken call by call, and columns joined to lines.

Every distinct number is turned into text once, with what values.py and signatures.py know of it; what the programs
have read takes the place of pointers and stands behind descriptors (pieces.py). Nothing here runs for each event.
"""

import os
from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue.stream import Rows, Tails
from scope_bpf.probes.syscalls.errors import failure
from scope_bpf.probes.syscalls.pieces import Layouts, Pieces
from scope_bpf.probes.syscalls.signatures import CALLS, Call, Signature
from scope_bpf.probes.syscalls.values import TEXTS, Text, protocol, socket_option
from scope_catalogue.codes import MOST_ERRNO

_ARGUMENTS = tuple(f"arg{n}" for n in range(6))
_REGISTERS = Signature(("hex",) * len(_ARGUMENTS))


def decode(
    rows: Rows, tails: Tails, wanted: Collection[str], names: Mapping[int, str], layouts: Layouts
) -> dict[str, pa.Array]:
    """Those that are wanted of the columns args, result and path; null in rows that are not to be decoded.

    Args:
        rows: of the stream `syscall`.
        names: of calls, by number.
    """
    made: dict[str, list[pa.Array]] = {name: [] for name in ("args", "result", "path") if name in wanted}
    if not rows["decoded"].any():
        return {name: pa.nulls(len(rows), pa.string()) for name in made}
    pieces = Pieces(tails, layouts)
    chosen = np.flatnonzero((rows["decoded"] != 0) & (rows["compat"] == 0))
    by_call = chosen[np.argsort(rows["nr"][chosen], kind="stable")]
    _, first = np.unique(rows["nr"][by_call], return_index=True)
    order = [np.empty(0, np.int64)]
    for group in np.split(by_call, first[1:]) if len(by_call) else ():
        call = CALLS.get(names.get(int(rows["nr"][group[0]]), ""), Call(_REGISTERS))
        for signature, where in _by_command(call, rows, group):
            calls = _Calls(rows, where, pieces, signature)
            order.append(where)
            for name, arrays in made.items():
                arrays.append(getattr(calls, name)())
    place = np.full(len(rows), -1, np.int64)
    joined = np.concatenate(order)
    place[joined] = np.arange(len(joined))
    back = pa.array(place, mask=place < 0)
    return {name: pa.concat_arrays([*arrays, pa.nulls(0, pa.string())]).take(back) for name, arrays in made.items()}


def _by_command(call: Call, rows: Rows, group: Rows) -> list[tuple[Signature, Rows]]:
    """The rows of a call by their signatures."""
    if not call.by_command:
        return [(call.plain, group)]
    commands, which = np.unique(rows[_ARGUMENTS[call.command]][group], return_inverse=True)
    text = TEXTS[call.plain.arguments[call.command]]
    return [
        (call.by_command.get(_plain_name(text(int(command))), call.plain), group[which == number])
        for number, command in enumerate(commands)
    ]


def _plain_name(command: str) -> str:
    return command.partition("|")[0].removesuffix("_PRIVATE")


class _Calls:
    """Rows of one signature, given by number."""

    def __init__(self, rows: Rows, where: Rows, pieces: Pieces, signature: Signature) -> None:
        self._rows, self._where, self._pieces, self._signature = rows, where, pieces, signature

    def args(self) -> pa.Array:
        """What strace shows between the parentheses."""
        shown = [self._argument(place, type_) for place, type_ in enumerate(self._signature.arguments)]
        if not shown:
            return pa.array([""] * len(self._where), pa.string())
        return pc.binary_join_element_wise(*shown, ", ", null_handling="skip")

    def _register(self, place: int) -> Rows:
        return self._rows[_ARGUMENTS[place]][self._where]

    def _argument(self, place: int, type_: str) -> pa.Array:
        values = self._register(place)
        if type_ in CONDITIONS:
            flags, text = CONDITIONS[type_]
            shown = _texts(values, text)
            return pc.if_else(pa.array(self._register(place - 1) & flags != 0), shown, None)
        if type_ == "-":
            return pa.nulls(len(values), pa.string())
        if type_ in BY_ANOTHER:
            before, text_for = BY_ANOTHER[type_]
            return _by_another(self._register(place - before), values, text_for)
        if type_ == "pair":
            return self._pair(place, values)
        read = self._pieces.texts(place, self._where)
        if type_ in ("fd", "dirfd"):
            return _followed(_texts(values, SHOWN[type_]), read)
        return pc.coalesce(read, _texts(values, SHOWN[type_]))

    def _pair(self, place: int, values: Rows) -> pa.Array:
        two = pc.split_pattern(self._pieces.texts(place, self._where), ", ")
        ends = [
            _followed(pc.list_element(two, n), self._pieces.texts(slot, self._where))
            for n, slot in enumerate(("SLOT_FIRST_OF_PAIR", "SLOT_SECOND_OF_PAIR"))
        ]
        shown = pc.binary_join_element_wise("[", ends[0], ", ", ends[1], "]", "")
        return pc.coalesce(shown, _texts(values, _address))

    def result(self) -> pa.Array:
        """What strace shows behind the "="."""
        values = self._rows["ret"][self._where]
        type_ = self._signature.result
        shown = _texts(values, lambda value: _result(value, type_))
        if type_ in ("fd", "same_fd"):
            read = self._pieces.texts("SLOT_RESULT" if type_ == "fd" else 0, self._where)
            shown = _followed(shown, pc.if_else(pa.array(values >= 0), read, None))
        return pc.if_else(pa.array(self._rows["returned"][self._where] != 0), shown, "?")

    def path(self) -> pa.Array:
        """The file that a call is about: by name, or else by descriptor; absolute."""
        arguments = self._signature.arguments
        for place, type_ in enumerate(arguments):
            if type_ in ("path", "path_at"):
                name = self._pieces.strings(place, self._where)
                base = place - 1 if type_ == "path_at" else "SLOT_CWD"
                return _text(_below(self._pieces.paths(base, self._where), name))
        slot = arguments.index("fd") if "fd" in arguments else "SLOT_RESULT"
        return _text(self._pieces.paths(slot, self._where))


def _texts(values: Rows, text_of: Text) -> pa.Array:
    """A text for each number, made once for those that are the same."""
    distinct = pa.array(values).dictionary_encode()
    return pa.array([text_of(value) for value in distinct.dictionary.to_pylist()], pa.string()).take(distinct.indices)


def _by_another(others: Rows, values: Rows, text_for: Callable[[int], Text]) -> pa.Array:
    """Texts that depend on another argument: made for each value of that one."""
    texts = pa.nulls(len(values), pa.string())
    for other in np.unique(others):
        texts = pc.if_else(pa.array(others == other), _texts(values, text_for(int(other) & 0xFFFFFFFF)), texts)
    return texts


def _followed(texts: pa.Array, read: pa.Array) -> pa.Array:
    """3</etc/passwd>, where something was read; else 3."""
    return pc.coalesce(pc.binary_join_element_wise(texts, read, ""), texts)


def _below(base: pa.Array, name: pa.Array) -> pa.Array:
    """The absolute path of a name below a directory; of an empty name, the directory itself. Both are bytes."""
    slash = pa.scalar(b"/", pa.binary())
    nothing = pa.scalar(b"", pa.binary())
    joined = pc.binary_join_element_wise(pc.if_else(pc.equal(base, slash), nothing, base), name, slash)
    below = pc.if_else(pc.equal(pc.binary_length(name), 0), base, joined)
    return pc.if_else(pc.starts_with(name, "/"), name, below)


def _text(values: pa.Array) -> pa.Array:
    """Bytes as text: what is not UTF-8 is written \\xHH."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        distinct = values.dictionary_encode()
        texts = [value.decode(errors="backslashreplace") for value in distinct.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(distinct.indices)


def _int(value: int) -> str:
    value &= 0xFFFFFFFF
    return str(value - (1 << 32) if value >> 31 else value)


def _descriptor(value: int) -> str:
    return "AT_FDCWD" if _int(value) == "-100" else _int(value)


def _hex(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:#x}" if value else "0"


def _address(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:#x}" if value else "NULL"


def _result(value: int, type_: str) -> str:
    if -MOST_ERRNO <= value < 0:
        return failure(-value)
    return RESULTS.get(type_, str)(value)


_POINTERS = "path path_at text string words data filled filled_text sockaddr filled_sockaddr pair address"
SHOWN: Mapping[str, Text] = {  # the register itself, by type
    **TEXTS,
    **dict.fromkeys(_POINTERS.split(), _address),
    **dict.fromkeys(("fd", "int", "process", "user"), _int),
    "dirfd": _descriptor,
    "uint": lambda value: str(value & 0xFFFFFFFF),
    "long": str,
    "size": lambda value: str(value & 0xFFFFFFFFFFFFFFFF),
    "hex": _hex,
}
RESULTS: Mapping[str, Text] = {
    "address": _address,
    "mode": TEXTS["mode"],
    "fd_state": lambda value: f"{value:#x} (flags {TEXTS['fd_flags'](value)})" if value else "0",
    "persona_state": lambda value: f"{_hex(value)} ({TEXTS['persona'](value)})",
    "open_state": lambda value: f"{value:#x} (flags {TEXTS['open_flags'](value)})" if value else "0 (flags O_RDONLY)",
}
BY_ANOTHER: Mapping[str, tuple[int, Callable[[int], Text]]] = {  # how far before, and what its value makes of this one
    "protocol": (2, protocol),
    "socket_option": (1, socket_option),
}
CONDITIONS: Mapping[str, tuple[int, Text]] = {
    "created_mode": (os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY), TEXTS["mode"]),
    "fixed_address": (2, _address),  # MREMAP_FIXED, include/uapi/linux/mman.h
}
