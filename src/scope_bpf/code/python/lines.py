"""Line tables of CPython's code objects: the line of an instruction.

Formats: Objects/lnotab_notes.txt (3.8, 3.9, and 3.10 for the other one), Objects/locations.md (3.11 to 3.12,
InternalDocs/code_objects.md later).
"""

from scope_bpf.code.python.versions import Version

_NO_LINE = -128  # 3.10: the instructions belong to no line
_MOST_BITS = 36  # of a number; a program may have made the table itself
_MOST_LINE = (1 << 31) - 1


def line_of(table: bytes, first_line: int, instruction: int, version: Version) -> int | None:
    """The line of an instruction; None if it belongs to no line, or the table is wrong.

    Args:
        table: co_lnotab up to 3.9, co_linetable since 3.10.
        instruction: its offset in the bytecode, in bytes; negative before the first one.
    """
    instruction = max(instruction, 0)
    if version >= (3, 11):
        line = _in_locations(table, first_line, instruction // 2)
    elif version == (3, 10):
        line = _in_ranges(table, first_line, instruction)
    else:
        line = _in_lnotab(table, first_line, instruction)
    return line if line is not None and 0 <= line <= _MOST_LINE else None


def _in_lnotab(table: bytes, line: int, instruction: int) -> int:
    """Pairs of bytes: how far the offset and the line increase."""
    at = 0
    for more, lines in zip(table[::2], table[1::2], strict=False):
        at += more
        if at > instruction:
            break
        line += lines - 256 if lines >= 128 else lines
    return line


def _in_ranges(table: bytes, line: int, instruction: int) -> int | None:
    """Pairs of bytes: length of a range of bytecode, and how far its line is from the one before."""
    at = 0
    for length, byte in zip(table[::2], table[1::2], strict=False):
        lines = byte - 256 if byte >= 128 else byte
        if lines != _NO_LINE:
            line += lines
        at += length
        if at > instruction:
            return line if lines != _NO_LINE else None
    return None


def _in_locations(table: bytes, line: int, unit: int) -> int | None:
    """Entries that begin with a byte whose highest bit is set: a code, and a number of two-byte units."""
    at = place = 0
    while place < len(table):
        code, units = table[place] >> 3 & 15, (table[place] & 7) + 1
        place += 1
        if code in (13, 14):  # no columns; long form
            line += _signed(table, place)
        elif 10 <= code <= 12:  # one line
            line += code - 10
        at += units
        if at > unit:
            return line if code != 15 else None  # 15: no location
        while place < len(table) and not table[place] & 0x80:
            place += 1
    return None


def _signed(table: bytes, place: int) -> int:
    """A number of six bits a byte, the lowest first; its lowest bit is the sign. More than 36 bits are no line."""
    value = shift = 0
    while place < len(table) and shift < _MOST_BITS:
        byte = table[place]
        value |= (byte & 63) << shift
        shift, place = shift + 6, place + 1
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1
