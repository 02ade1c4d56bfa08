"""Texts of Python frames: function, file and line, from what the BPF programs kept of code objects."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.code.python.lines import line_of
from scope_bpf.code.python.versions import Version
from scope_bpf.layout.records import record_dtype

UNKNOWN = "[Python function that could not be read]"
_MOST_TEXTS = 65536  # that are remembered
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
            return UNKNOWN
        if len(self._texts) >= _MOST_TEXTS:
            self._known, self._texts = {}, {}
        line = None
        if code.lines is not None and version:
            line = line_of(code.lines, code.first_line, instruction, version)
        self._known[pid, start_ns, number] = code
        text = self._texts[pid, start_ns, number, instruction] = (
            f"{code.name} ({code.file}{f':{line}' if line else ''})"
        )
        return text

    def _find(self, pid: int, start_ns: int, number: int) -> _Code | None:
        key = np.zeros((), self._key)
        key["pid"], key["start_ns"], key["number"] = pid, start_ns, number
        value = self._codes.get(key.tobytes())
        if value is None:
            return None
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
