"""Texts of Python frames: function, file and line, from what the BPF programs kept of code objects.

The maps are small and a machine's code objects are many, so those that were read are taken out again and again.
Programs put a code object in once more when they see it again.
"""

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from scope_bpf.binding.map import Map
from scope_bpf.binding.object import BpfObject
from scope_bpf.code.python.lines import line_of
from scope_bpf.code.python.versions import Version
from scope_bpf.layout.records import record_dtype

UNKNOWN = "[Python function that could not be read]"
_MOST_TEXTS = 65536  # that are remembered; as many code objects
_LOOK_EVERY_S = 1.0
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}  # by bytes of a character: PEP 393


@dataclass(frozen=True)
class _Code:
    name: str
    file: str
    first_line: int
    lines: bytes | None  # None: it was not kept whole


class Codes:
    """Code objects in the maps `python_codes` and `python_lines` (python_code.bpf.h). For one thread."""

    def __init__(self, object_: BpfObject) -> None:
        self._codes, self._lines = object_.map("python_codes"), object_.map("python_lines")
        self._key = record_dtype(object_.btf, "python_codes_key")
        self._code = record_dtype(object_.btf, "python_code")
        self._piece_key = record_dtype(object_.btf, "python_lines_key")
        self._known: dict[tuple[int, int, int], _Code] = {}  # by process and number
        self._texts: dict[tuple[int, int, int, int], str] = {}  # and by instruction
        self._read = 0  # new code objects since room was last made
        self._lacked = False  # a frame's code object was not in the map
        self._looked = 0.0  # time.monotonic() when it was last seen how full the map is

    def text(self, pid: int, start_ns: int, frame: Any, version: Version | None) -> str:
        """A frame as text: `function (file:line)`; without what is unknown.

        Args:
            frame: a struct python_frame.
        """
        number, instruction = int(frame["code"]), int(frame["instruction"].astype(np.int32))
        known = self._texts.get((pid, start_ns, number, instruction))
        if known:
            return known
        code = self._known.get((pid, start_ns, number)) or self._find(pid, start_ns, number)
        if not code:
            self._lacked = True
            return UNKNOWN
        _halve(self._known)
        _halve(self._texts)
        line = None
        if code.lines is not None and version:
            line = line_of(code.lines, code.first_line, instruction, version)
        self._known[pid, start_ns, number] = code
        text = self._texts[pid, start_ns, number, instruction] = (
            f"{code.name} ({code.file}{f':{line}' if line else ''})"
        )
        return text

    def make_room(self) -> None:
        """Takes code objects that were read out of the maps if they are many, or if one was missing."""
        most, now = self._codes.max_entries // 2, time.monotonic()
        may_be_back = len(self._known) >= most and now - self._looked > _LOOK_EVERY_S
        if self._read < most // 2 and not self._lacked and not may_be_back:
            return
        self._read, self._looked = 0, now
        keys = self._codes.list_keys()
        if len(keys) >= most or self._lacked:
            self._lacked = False
            self._take_out(self._codes, self._key, keys)
            self._take_out(self._lines, self._piece_key, self._lines.list_keys())

    def _take_out(self, map_: Map, layout: Any, found: list[bytes]) -> None:
        keys = np.frombuffer(b"".join(found), layout)
        owners = zip(*(keys[name].tolist() for name in ("pid", "start_ns", "number")), strict=True)
        over = np.fromiter((owner in self._known for owner in owners), bool, len(keys))
        map_.delete_all(keys[over].view(np.uint8).reshape(-1, map_.key_size))

    def _find(self, pid: int, start_ns: int, number: int) -> _Code | None:
        key = np.zeros((), self._key)
        key["pid"], key["start_ns"], key["number"] = pid, start_ns, number
        value = self._codes.get(key.tobytes())
        if value is None:
            return None
        self._read += 1
        code = np.frombuffer(value, self._code)[0]
        name = _text(code["name"], code["name_bytes"])
        if not name:
            return None
        file = _text(code["file"], code["file_bytes"], is_end=True) or "unknown file"
        lines = self._table(pid, start_ns, number, int(code["lines_bytes"]))
        return _Code(name, file, int(code["first_line"]), lines)

    def _table(self, pid: int, start_ns: int, number: int, size: int) -> bytes | None:
        found, key = b"", np.zeros((), self._piece_key)
        key["pid"], key["start_ns"], key["number"] = pid, start_ns, number
        while len(found) < size:
            piece = self._lines.get(key.tobytes())
            if piece is None:
                return None
            found += piece
            key["piece"] += 1
        return found[:size]


def _halve(remembered: dict[Any, Any]) -> None:
    """Forgets the older half, if there are too many."""
    if len(remembered) >= _MOST_TEXTS:
        for key in list(islice(remembered, _MOST_TEXTS // 2)):
            del remembered[key]


def _text(text: Any, kept: Any, *, is_end: bool = False) -> str:
    """The text of a struct python_text, with ... for what was too long; empty if there is none.

    Args:
        is_end: the end of the text was kept, not its begin.
    """
    width, count = int(text["width"]), int(text["bytes"])
    if width not in _ENCODINGS:
        return ""
    found = kept[:count].tobytes().decode(_ENCODINGS[width], errors="replace")
    is_whole = count >= int(text["length"]) * width
    return found if is_whole else f"...{found}" if is_end else f"{found}..."
