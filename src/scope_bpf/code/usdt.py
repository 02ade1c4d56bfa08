"""USDT probes: places that a program's author marked, described by notes in the program's file.

Each place ("site") is a nop. Its note has the name of the probe, and where the probe's arguments are at that place.
Format: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation. Arguments are operands as the assembler
writes them: `-4@%edi`, `8@-16(%rbp)`, `-4@$5` (x86-64), `8@x0`, `-4@[sp, 60]` (arm64).
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from scope_bpf.code.elf import X86_64, ElfFile

NOTES, _BASE = ".note.stapsdt", ".stapsdt.base"
MOST_ARGUMENTS = 12  # of <sys/sdt.h>
_OWNER, _TYPE = b"stapsdt\0", 3
_NOTE = struct.Struct("<III")  # size of owner, size of text, type
_ADDRESSES = struct.Struct("<QQQ")  # of the site, of the section .stapsdt.base at link time, of the semaphore
# Limits against damaged files; what is beyond them is ignored
_MOST_BYTES = 8 << 20  # of notes in a file
_LONGEST = 4096  # bytes of one note's text
_ARM64 = 183  # EM_AARCH64
# The programs harm no one at a nop. A note that points to other code is damaged.
_NOPS = {X86_64: (b"\x90", b"\x0f\x1f", b"\x66\x90", b"\x66\x0f\x1f"), _ARM64: (b"\x1f\x20\x03\xd5",)}
_MOST_NUMBER = 1 << 63

# Offsets in struct pt_regs, arch/x86/include/uapi/asm/ptrace.h
_X86_WORDS = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
    *("ax", "cx", "dx", "si", "di", "orig", "ip", "cs", "flags", "sp"),
)
_X86 = {name: 8 * number for number, name in enumerate(_X86_WORDS) if name not in ("orig", "cs", "flags")}


class Kind(StrEnum):
    """Where an argument is: the enumerators of `enum usdt_kind` in bpf/include/usdt.bpf.h."""

    ABSENT = "USDT_ABSENT"
    CONSTANT = "USDT_CONSTANT"
    REGISTER = "USDT_REGISTER"
    MEMORY = "USDT_MEMORY"


@dataclass(frozen=True)
class Operand:
    """An argument at a site.

    Attributes:
        text: the operand as the note has it.
        number: a constant, or what is added to an address in memory.
        base, index: offsets of registers in struct pt_regs; None: none.
        scale: an address's index is shifted left by so many bits; a register's value right.
        size: bytes.
    """

    text: str
    kind: Kind = Kind.ABSENT
    number: int = 0
    base: int | None = None
    index: int | None = None
    scale: int = 0
    size: int = 8
    is_signed: bool = False


@dataclass(frozen=True)
class Site:
    """A site of a probe.

    Attributes:
        offset: of the nop in the file.
        semaphore: offset in the file of the counter that turns the site on while it is not 0; 0: there is none.
    """

    provider: str
    name: str
    offset: int
    semaphore: int
    arguments: tuple[Operand, ...]

    @property
    def full_name(self) -> str:
        """The name to show: PROVIDER:NAME."""
        return f"{self.provider}:{self.name}"


def sites(elf: ElfFile) -> list[Site]:
    """The sites that a file's notes describe. Notes that make no sense are left out."""
    found: dict[tuple[int, str, str], Site] = {}
    base = next((address for address, _ in elf.sections(_BASE)), 0)
    variable = cache(partial(_variable, elf))
    room = _MOST_BYTES
    for _, notes in elf.sections(NOTES):
        read, room = notes[:room], max(0, room - len(notes))
        for text in elf.effort.on(_texts(read)):
            site = _site(elf, base, text, variable)
            if site:
                found.setdefault((site.offset, site.provider, site.name), site)
    return list(found.values())


def _texts(notes: bytes) -> Iterator[bytes]:
    at = 0
    while at + _NOTE.size <= len(notes):
        owner_size, size, kind = _NOTE.unpack_from(notes, at)
        owner = notes[at + _NOTE.size : at + _NOTE.size + min(owner_size, len(_OWNER) + 1)]
        begin = at + _NOTE.size + (owner_size + 3 & ~3)
        if (owner, kind) == (_OWNER, _TYPE) and size <= _LONGEST and begin + size <= len(notes):
            yield notes[begin : begin + size]
        at = begin + (size + 3 & ~3)


def _site(elf: ElfFile, base: int, text: bytes, variable: Callable[[str], int | None]) -> Site | None:
    names = text[_ADDRESSES.size :].split(b"\0")
    if len(text) < _ADDRESSES.size or len(names) < 3 or not (names[0] and names[1]):
        return None
    address, linked_base, semaphore = _ADDRESSES.unpack_from(text)
    moved = base - linked_base if base else 0  # by prelink(8), which does not change notes
    offset = _code_at(elf, address + moved)
    counter = _variable_at(elf, semaphore + moved) if semaphore else 0
    if offset is None or counter is None:
        return None
    provider, name, arguments = (part.decode(errors="backslashreplace") for part in names[:3])

    def distance(name: str) -> int | None:
        there = variable(name)
        return None if there is None else there - (address + moved)

    return Site(provider, name, offset, counter, operands(arguments, elf.machine, distance))


def _variable(elf: ElfFile, name: str) -> int | None:
    """The address of a variable. None if several have the name, or none; a stripped file may have lost one."""
    if not elf.symbols:
        return None
    found = {int(at) for at in elf.symbols.addresses_at(elf.symbols.indices(name)) if at > 0}
    return found.pop() if len(found) == 1 else None


def _code_at(elf: ElfFile, address: int) -> int | None:
    for part in elf.segments:
        if part.executable and part.address <= address < part.address + part.size:
            offset = address - part.address + part.offset
            return offset if elf.read(offset, 4).startswith(_NOPS.get(elf.machine, ())) else None
    return None


def _variable_at(elf: ElfFile, address: int) -> int | None:
    for part in elf.segments:
        if part.writable and part.address <= address and address + 2 <= part.address + part.size:
            return address - part.address + part.offset
    return None


_ARGUMENT = re.compile(r"(?:(?P<sign>-?)(?P<size>[1248])(?P<float>f?))?@(?P<at>.+)", re.DOTALL)
_NUMBER = r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})"
_X86_MEMORY = re.compile(
    rf"(?P<number>{_NUMBER})?\((?P<base>%\w+)?(?:,\s*(?P<index>%\w+)(?:,\s*(?P<scale>[1248]))?)?\)"
)
_X86_VARIABLE = re.compile(r"(?P<name>[A-Za-z_.$][\w.$]*)(?P<number>[+-][0-9]{1,20})?\(%rip\)")
_ARM_MEMORY = re.compile(rf"\[(?P<base>\w+)(?:,\s*#?(?P<number>{_NUMBER}))?\]")


Distance = Callable[[str], int | None]


def operands(arguments: str, machine: int, distance: Distance = lambda _: None) -> tuple[Operand, ...]:
    """The arguments in a note's text. Those that cannot be read have Kind.ABSENT.

    Args:
        distance: the bytes from the site to a variable with this name; None: unknown.
    """
    return tuple(_operand(each, machine, distance) for each in _split(arguments)[:MOST_ARGUMENTS])


def _split(arguments: str) -> list[str]:
    """Blanks separate arguments, but not within brackets: `8@[sp, 16]`. `8@ 5` is one argument, too."""
    return re.findall(r"(?:\[[^\[\]]*\]|\([^()]*\)|[^\s\[(])+", re.sub(r"@\s+", "@", arguments))


def _operand(text: str, machine: int, distance: Distance) -> Operand:
    match = _ARGUMENT.fullmatch(text)
    absent = Operand(text)
    if not match:
        return absent
    at, size = match["at"], int(match["size"] or 8)
    is_signed = match["sign"] == "-"
    made = _x86(at, bool(match["size"]), distance) if machine == X86_64 else _arm64(at) if machine == _ARM64 else None
    if not made:
        return absent
    kind, number, base, index, scale, natural = made
    if not -_MOST_NUMBER <= number < 2 * _MOST_NUMBER or (kind is Kind.REGISTER and match["float"]):
        return absent
    return Operand(text, kind, number, base, index, scale, natural or size, is_signed)


_Made = tuple[Kind, int, int | None, int | None, int, int]  # like the members of Operand, up to its size; 0: as given


def _x86(at: str, has_size: bool, distance: Distance) -> _Made | None:
    if re.fullmatch(rf"\$?{_NUMBER}", at):
        return Kind.CONSTANT, _integer(at.removeprefix("$")), None, None, 0, 0
    if at.startswith("%"):
        found = _x86_register(at)
        return (Kind.REGISTER, 0, found[0], None, found[1], 0 if has_size else found[2]) if found else None
    if match := _X86_VARIABLE.fullmatch(at):
        away = distance(match["name"])
        return None if away is None else (Kind.MEMORY, away + _integer(match["number"] or "0"), _X86["ip"], None, 0, 0)
    match = _X86_MEMORY.fullmatch(at)
    if not match or not (match["base"] or match["index"]):
        return None
    named = [_x86_register(match[name]) if match[name] else None for name in ("base", "index")]
    if any(match[name] and (not found or found[2] != 8) for name, found in zip(("base", "index"), named, strict=True)):
        return None
    base, index = (found[0] if found else None for found in named)
    scale = int(match["scale"] or 1).bit_length() - 1
    return Kind.MEMORY, _integer(match["number"] or "0"), base, index, scale, 0


def _x86_register(name: str) -> tuple[int, int, int] | None:
    """Offset in struct pt_regs, bits below the register, and its bytes."""
    name = name.removeprefix("%")
    if match := re.fullmatch(r"([abcd])h", name):
        return _X86[f"{match[1]}x"], 8, 1
    if match := re.fullmatch(r"(r(?:8|9|1[0-5]))([dwb]?)", name):
        return _X86[match[1]], 0, {"": 8, "d": 4, "w": 2, "b": 1}[match[2]]
    if match := re.fullmatch(r"([abcd])l|(si|di|bp|sp)l", name):
        return _X86[f"{match[1]}x" if match[1] else match[2]], 0, 1
    size = {"r": 8, "e": 4}.get(name[:1])
    word = name[1:] if size else name
    return (_X86[word], 0, size or 2) if word in _X86 and not word.startswith("r") else None


def _arm64(at: str) -> _Made | None:
    if re.fullmatch(rf"#?{_NUMBER}", at):
        return Kind.CONSTANT, _integer(at.removeprefix("#")), None, None, 0, 0
    if (found := _arm64_register(at)) is not None:
        return Kind.REGISTER, 0, found, None, 0, 0
    match = _ARM_MEMORY.fullmatch(at)
    base = _arm64_register(match["base"]) if match else None
    if not match or base is None or match["base"].startswith("w"):
        return None
    return Kind.MEMORY, _integer(match["number"] or "0"), base, None, 0, 0


def _arm64_register(name: str) -> int | None:
    """Offset in struct user_pt_regs, arch/arm64/include/uapi/asm/ptrace.h."""
    if name == "sp":
        return 8 * 31
    match = re.fullmatch(r"[xw]([0-9]|[12][0-9]|30)", name)
    return 8 * int(match[1]) if match else None


def _integer(text: str) -> int:
    return int(text, 16 if "x" in text.lower() else 10)
