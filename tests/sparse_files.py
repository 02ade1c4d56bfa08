"""ELF files that claim to be large and have no data."""

import os
import struct
from io import FileIO
from pathlib import Path

CODE = 1 << 14  # where the code begins


def claiming(path: Path, size: int) -> FileIO:
    """A file with almost no data, whose tables and code are each said to take nearly all of its `size` bytes."""
    kinds = {".text": 1, ".symtab": 2, ".strtab": 3, ".dynsym": 11, ".dynstr": 3}
    kinds |= {".eh_frame": 1, ".rela.dyn": 4, ".note.stapsdt": 7, ".plt": 1, ".names": 3}
    names = b"\0" + b"".join(name.encode() + b"\0" for name in kinds)
    begin, headers, texts = CODE, 1 << 13, 1 << 12
    sections = [bytes(64)]
    for name, kind in kinds.items():
        where = (texts, len(names)) if name == ".names" else (begin, size - begin)
        sections.append(struct.pack("<2I4Q2I2Q", names.index(name.encode()), kind, 2, begin, *where, 0, 0, 1, 24))
    part = struct.pack("<2I6Q", 1, 5, begin, begin, begin, size - begin, size - begin, 4096)
    begins = struct.pack("<2HI3QI6H", 3, 62, 1, 0, 64, headers, 0, 64, 56, 1, 64, len(sections), len(kinds))
    file = FileIO(path, "w+")
    file.truncate(size)
    for at, data in ((0, b"\x7fELF\2\1\1" + bytes(9) + begins + part), (texts, names), (headers, b"".join(sections))):
        os.pwrite(file.fileno(), data, at)
    return file
