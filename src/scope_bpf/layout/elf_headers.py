"""The headers of an ELF file. Formats: System V ABI, chapters 4 and 5; elf(5).

They are read here, because pyelftools takes 40 ms to import and 20 ms per file: a trace would begin later, and miss
calls of a program that has just mapped a library.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from scope_bpf.errors import NotElf

Array = np.ndarray[Any, np.dtype[Any]]
Read = Callable[[int, int], bytes]  # bytes at an offset in the file; fewer at its end

_HEADER = np.dtype(
    [
        *(("magic", "V6"), ("ident", "V10"), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"), ("entry", "<u8")),
        *(("part_offset", "<u8"), ("section_offset", "<u8"), ("flags", "<u4"), ("header_size", "<u2")),
        *(("part_size", "<u2"), ("parts", "<u2"), ("section_size", "<u2"), ("sections", "<u2"), ("names", "<u2")),
    ]
)
_PART = np.dtype(
    [
        *(("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("address", "<u8"), ("physical", "<u8")),
        *(("size", "<u8"), ("memory", "<u8"), ("align", "<u8")),
    ]
)
_SECTION = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8")),
        *(("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")),
    ]
)
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_MAGIC = np.void(b"\x7fELF\x02\x01")  # ELFCLASS64, ELFDATA2LSB
# Limits against damaged files; larger values are ignored
_MOST_NAMES = 1 << 20  # bytes of section names
_LONGEST_NAME = 64


class Headers:
    """The headers of a 64-bit little-endian ELF file.

    Attributes:
        machine: the CPU architecture, e_machine.
        parts: the program headers.
        section_names: the sections' names, in the order of their numbers.
        sections: the section headers by name.

    Raises:
        NotElf: the file is not such a file.
    """

    def __init__(self, read: Read) -> None:
        header = table_at(read, 0, 1, _HEADER)
        if not len(header) or header[0]["magic"] != _MAGIC:
            raise NotElf("no ELF file of 64 bits, little-endian")
        (only,) = header
        self.machine = int(only["machine"])
        self.parts = table_at(read, int(only["part_offset"]), int(only["parts"]), _PART)
        sections = table_at(read, int(only["section_offset"]), int(only["sections"]), _SECTION)
        names = b""
        if only["names"] < len(sections):
            named = sections[only["names"]]
            names = read(int(named["offset"]), min(int(named["size"]), _MOST_NAMES))
        places = sections["name"].tolist()
        self.section_names = [names[at : at + _LONGEST_NAME].partition(b"\0")[0] for at in places]
        self.sections = dict(zip(self.section_names, sections, strict=True))


def table_at(read: Read, offset: int, count: int, dtype: np.dtype[Any]) -> Array:
    """Up to `count` elements at an offset; fewer at the end of the file."""
    data = read(offset, count * dtype.itemsize)
    return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
