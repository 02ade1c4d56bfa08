"""Notes of USDT probes: where the arguments are, and damaged files."""

import random
import subprocess
from io import FileIO
from pathlib import Path

import pytest

from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.code.usdt import MOST_ARGUMENTS, Kind, Operand, Site, operands, sites
from scope_bpf.errors import NotElf

ARM64 = 183
SP, BP, DI, AX, R12, IP = 152, 32, 112, 80, 24, 128

SOURCE = """
unsigned short semaphore __attribute__((section(".probes")));
int global = 3;
int main(void) { return global; }
__asm__(
    ".text\\n990: CODE; ret\\n"
    ".pushsection .note.stapsdt,\\"?\\",\\"note\\"\\n.balign 4\\n.4byte 8, 994f-993f, 3\\n.asciz \\"stapsdt\\"\\n"
    "993: .8byte 990b - MOVED, _.stapsdt.base - MOVED, SEMAPHORE\\n"
    ".asciz \\"shop\\"\\n.asciz \\"sale\\"\\n.asciz \\"-4@global(%rip) 8@%rax\\"\\n994: .balign 4\\n.popsection\\n"
    ".pushsection .stapsdt.base,\\"a\\",\\"progbits\\"\\n_.stapsdt.base: .space 1\\n.popsection"
);
"""


@pytest.mark.parametrize(
    ("text", "machine", "expected"),
    [
        ("-4@%edi", X86_64, Operand("", Kind.REGISTER, 0, DI, None, 0, 4, True)),
        ("8@%r12", X86_64, Operand("", Kind.REGISTER, 0, R12, None, 0, 8)),
        ("2@%r12w", X86_64, Operand("", Kind.REGISTER, 0, R12, None, 0, 2)),
        ("1@%ah", X86_64, Operand("", Kind.REGISTER, 0, AX, None, 8, 1)),
        ("-1@%dil", X86_64, Operand("", Kind.REGISTER, 0, DI, None, 0, 1, True)),
        ("@%eax", X86_64, Operand("", Kind.REGISTER, 0, AX, None, 0, 4)),
        ("8@-16(%rbp)", X86_64, Operand("", Kind.MEMORY, -16, BP)),
        ("8@(%rax)", X86_64, Operand("", Kind.MEMORY, 0, AX)),
        ("8@0x10(%rax)", X86_64, Operand("", Kind.MEMORY, 16, AX)),
        ("4@8(%rax,%rdi,4)", X86_64, Operand("", Kind.MEMORY, 8, AX, DI, 2, 4)),
        ("4@(%rsp,%rdi)", X86_64, Operand("", Kind.MEMORY, 0, SP, DI, 0, 4)),
        ("4@16(,%rdi,8)", X86_64, Operand("", Kind.MEMORY, 16, None, DI, 3, 4)),
        ("-4@$-5", X86_64, Operand("", Kind.CONSTANT, -5, size=4, is_signed=True)),
        ("8@$18446744073709551615", X86_64, Operand("", Kind.CONSTANT, 2**64 - 1)),
        ("8f@-8(%rsp)", X86_64, Operand("", Kind.MEMORY, -8, SP)),
        ("4@there+4(%rip)", X86_64, Operand("", Kind.MEMORY, 104, IP, size=4)),
        ("8@x0", ARM64, Operand("", Kind.REGISTER, 0, 0)),
        ("-4@w19", ARM64, Operand("", Kind.REGISTER, 0, 152, None, 0, 4, True)),
        ("-4@[sp, 60]", ARM64, Operand("", Kind.MEMORY, 60, 248, None, 0, 4, True)),
        ("8@[x1,#-8]", ARM64, Operand("", Kind.MEMORY, -8, 8)),
        ("4@-7", ARM64, Operand("", Kind.CONSTANT, -7, size=4)),
    ],
)
def test_operands(text: str, machine: int, expected: Operand) -> None:
    """Registers, memory and constants, as compilers write them into notes."""
    (found,) = operands(text, machine, {"there": 100}.get)
    assert found == Operand(text, *list(vars(expected).values())[1:])


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        *((text, X86_64) for text in ("8f@%xmm0", "8@%st(1)", "8@%fs:16", "8@%fs:there@tpoff", "8@elsewhere(%rip)")),
        *((text, X86_64) for text in ("3@%eax", "8@", "nonsense", "8@%nonsense", "8@(%eax)", "8@()", "8@%rip(%rax)")),
        *(
            (text, X86_64)
            for text in ("8@$99999999999999999999", "8@(%rax,%rdi,3)", "8@%ax(%rax)", "8f@%rax", "8@%dh5")
        ),
        *((text, ARM64) for text in ("8@v0", "8@[w0]", "8@[x0, x1]", "8@x31", "8@%rax")),
        ("8@%rax", 40),
    ],
)
def test_operands_that_cannot_be_read(text: str, machine: int) -> None:
    """Other forms, such as floating-point registers, are kept as text, so that people can be told."""
    assert operands(text, machine)[0].kind is Kind.ABSENT


def test_several_operands() -> None:
    """Blanks separate operands, except within brackets; there are at most 12."""
    assert [one.text for one in operands("-4@[sp, 60] 8@x0  4@5", ARM64)] == ["-4@[sp, 60]", "8@x0", "4@5"]
    assert [one.text for one in operands("8@8(%rax, %rdi, 4) 8@%rax", X86_64)] == ["8@8(%rax, %rdi, 4)", "8@%rax"]
    assert operands("", X86_64) == ()
    assert len(operands("8@%rax " * 100, X86_64)) == 12


def built(folder: Path, code: str = "nop", moved: int = 0, semaphore: str = "semaphore") -> Path:
    text = SOURCE.replace("CODE", code).replace("MOVED", str(moved)).replace("SEMAPHORE", semaphore)
    (folder / "source.c").write_text(text)
    subprocess.run(["gcc", "-no-pie", "-o", folder / "program", folder / "source.c"], check=True)
    return folder / "program"


def read(program: Path) -> list[Site]:
    with FileIO(program) as file:
        return sites(ElfFile(file))


def test_a_site(tmp_path: Path) -> None:
    """A site's nop and its semaphore are found in the file; a global variable is at a distance from the nop."""
    program = built(tmp_path)
    (site,) = read(program)
    assert (site.full_name, site.arguments[1]) == ("shop:sale", Operand("8@%rax", Kind.REGISTER, 0, AX))
    data = program.read_bytes()
    assert data[site.offset : site.offset + 1] == b"\x90"
    with FileIO(program) as file:
        elf = ElfFile(file)
        (variable,) = elf.symbols.addresses_at(elf.symbols.indices("global")) if elf.symbols else ()
        (semaphore,) = elf.symbols.addresses_at(elf.symbols.indices("semaphore")) if elf.symbols else ()
        address = elf.address_of(site.offset)
        assert elf.offset_of(int(semaphore)) == site.semaphore > 0
    assert address is not None
    assert site.arguments[0].number == int(variable) - address
    subprocess.run(["strip", program], check=True)
    (stripped,) = read(program)
    assert (stripped.arguments[0].kind, stripped.arguments[1]) == (Kind.ABSENT, site.arguments[1])


def test_a_file_that_prelink_has_moved(tmp_path: Path) -> None:
    """If the section .stapsdt.base is elsewhere than the note says, all of the note's addresses moved with it."""
    (plain,) = read(built(tmp_path))
    (moved,) = read(built(tmp_path, moved=0x100, semaphore="semaphore - 0x100"))
    assert moved == plain


@pytest.mark.parametrize(
    ("code", "semaphore"), [("push %rax; pop %rax", "semaphore"), ("nop", "main"), ("nop", "0x77777777")]
)
def test_notes_that_would_harm_the_program(tmp_path: Path, code: str, semaphore: str) -> None:
    """A site that is no nop, and a semaphore that is no variable, come from a damaged note: it is left out."""
    assert read(built(tmp_path, code, semaphore=semaphore)) == []


def test_damaged_files(tmp_path: Path) -> None:
    """Whatever the bytes of the notes are, reading them ends, and every site that is found is code of the file."""
    data = built(tmp_path).read_bytes()
    begin = data.index(b"stapsdt\0") - 12
    chance = random.Random(5)
    damaged = tmp_path / "damaged"
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            bad[begin + chance.randrange(100)] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        damaged.write_bytes(bad)
        try:
            found = read(damaged)
        except NotElf:
            continue
        assert all(data[site.offset : site.offset + 1] in (b"\x90", b"\x0f", b"\x66") for site in found)


def test_brackets_without_an_end() -> None:
    """Texts of any length are read in one pass: reading these from each bracket on would take hours."""
    for bracket in "([":
        assert len(operands(bracket * 4_000_000, X86_64)) <= MOST_ARGUMENTS
