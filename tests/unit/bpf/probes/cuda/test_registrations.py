"""Registrations and launches as compilers of real libraries write them: a name is right, or it is absent."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import pytest

from scope_bpf.code.elf import ElfFile
from scope_bpf.probes.cuda.registrations import find_handles, find_kernels
from scope_bpf.probes.cuda.stripped import find_launch_functions

PRELUDE = """
.macro kernel name, text
  .section .rodata
  text_\\name: .asciz "\\text"
  .text
  .balign 16
  \\name: ret
.endm
.macro distant_kernel name, text
  .section .far, "aw"
  text_\\name: .asciz "\\text"
  .text
  .balign 16
  \\name: ret
.endm
.macro last_arguments
  movl $-1, %r8d
  xorl %r9d, %r9d
  pushq $0
  pushq $0
  pushq $0
  pushq $0
.endm
.macro register
  call __cudaRegisterFunction@PLT
  addq $32, %rsp
.endm
.section .nv_fatbin, "a"
.long 0
.text
"""
OWN = """
.globl __cudaRegisterFunction
.{visibility} __cudaRegisterFunction
.type __cudaRegisterFunction, @function
__cudaRegisterFunction: ret
.size __cudaRegisterFunction, 1
"""
TWO = """
kernel one, "_Z3onePi"
kernel two, "_Z3twov"
constructor:
  pushq %rbx
"""
OLD_GCC = """
  last_arguments
  leaq text_{0}(%rip), %rcx
  leaq {0}(%rip), %rsi
  movq %rcx, %rdx
  movq %rbx, %rdi
  register
"""
NEW_GCC = """
  last_arguments
  leaq text_{0}(%rip), %rdx
  leaq {0}(%rip), %rsi
  movq %rdx, %rcx
  movq %rbx, %rdi
  register
"""
CLANG = """
  vxorps %xmm0, %xmm0, %xmm0
  vmovups %ymm0, (%rsp)
  movq {0}@GOTPCREL(%rip), %rsi
  leaq text_{0}(%rip), %rcx
  movq %rbx, %rdi
  movq %rcx, %rdx
  movl $-1, %r8d
  xorl %r9d, %r9d
  vzeroupper
  call __cudaRegisterFunction@PLT
"""
NOT_OPTIMIZED = """
  movq -8(%rbp), %rax
  last_arguments
  leaq text_{0}(%rip), %rdx
  movq %rdx, %rcx
  leaq {0}(%rip), %rdx
  movq %rdx, %rsi
  leaq text_{0}(%rip), %rdx
  movq %rax, %rdi
  register
"""
NO_PLT = """
  last_arguments
  leaq text_{0}(%rip), %rdx
  leaq {0}(%rip), %rsi
  call *__cudaRegisterFunction@GOTPCREL(%rip)
  addq $32, %rsp
"""
BOTH = {"one": "_Z3onePi", "two": "_Z3twov"}


@dataclass(frozen=True)
class Library:
    """A library, its stripped copy, and the addresses of its functions."""

    path: Path
    stripped: Path
    addresses: Mapping[str, int]

    def kernels(self, path: Path) -> dict[str, str | None]:
        """The kernels' names found in one of the files, by host function."""
        functions = {address: name for name, address in self.addresses.items()}
        with FileIO(path) as file:
            found = find_kernels(ElfFile(file))
            return {functions[at]: found.name_of(at) for at in found.functions.tolist()}


Assemble = Callable[..., Library]


@pytest.fixture
def assemble(tmp_path: Path) -> Assemble:
    """Builds a library from assembly; it imports the runtime, or has its own, exported or hidden."""

    def made(source: str, runtime: str = "imported", *flags: str) -> Library:
        visibility = {"exported": "protected", "interposable": "globl", "hidden": "hidden"}.get(runtime)
        own = OWN.replace("{visibility}", visibility) if visibility else ""
        (tmp_path / "source.s").write_text(PRELUDE + own + source)
        path, stripped = tmp_path / "library.so", tmp_path / "stripped.so"
        command = ["gcc", "-shared", "-nostdlib", *flags, "-o", str(path), str(tmp_path / "source.s")]
        subprocess.run(command, check=True)
        subprocess.run(["strip", "-o", str(stripped), str(path)], check=True)
        listed = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
        words = [line.split() for line in listed.splitlines()]
        return Library(path, stripped, {line[2]: int(line[0], 16) for line in words if len(line) == 3})

    return made


@pytest.mark.parametrize("runtime", ["imported", "interposable", "hidden"])
@pytest.mark.parametrize("pattern", [OLD_GCC, NEW_GCC, CLANG, NOT_OPTIMIZED, NO_PLT])
def test_a_compilers_way(assemble: Assemble, pattern: str, runtime: str) -> None:
    """Every kernel is named with each compiler's code and each kind of runtime, stripped or not."""
    library = assemble(TWO + pattern.format("one") + pattern.format("two") + "  ret\n", runtime)
    assert library.kernels(library.path) == BOTH
    assert library.kernels(library.stripped) == BOTH


@pytest.mark.parametrize("runtime", ["imported", "hidden"])
def test_an_address_like_an_instruction(assemble: Assemble, runtime: str) -> None:
    """An address with the bytes of `push $0` in it is not taken for an instruction."""
    registered = OLD_GCC.format("one") + OLD_GCC.format("two") + "  ret\n"
    before = '.section .before, "aw"\n.skip 0x6a1000\n'
    library = assemble(before + (TWO + registered).replace("kernel", "distant_kernel"), runtime)
    assert (library.addresses["text_one"] - library.addresses["constructor"]) >> 16 == 0x6A
    assert library.kernels(library.path) == BOTH
    assert library.kernels(library.stripped) == BOTH


STALE = """
  leaq __dso_handle(%rip), %rdx
  leaq one(%rip), %rsi
  call elsewhere@PLT
  last_arguments
  leaq two(%rip), %rsi
  movq 8(%rbx), %rdx
  register
  ret
.hidden __dso_handle
.data
__dso_handle: .asciz "stale"
"""
ACROSS = """
  leaq text_one(%rip), %rdx
  leaq one(%rip), %rsi
  {barrier}
1:
  last_arguments
  leaq {function}(%rip), %rsi
  register
  ret
"""


@pytest.mark.parametrize("runtime", ["imported", "hidden"])
@pytest.mark.parametrize(
    "source",
    [
        STALE,
        ACROSS.replace("{barrier}", "jmp 1f").replace("{function}", "two"),
        ACROSS.replace("{barrier}", "testl %eax, %eax\n  je 1f").replace("{function}", "two"),
        ACROSS.replace("{barrier}", "call elsewhere@PLT").replace("{function}", "two"),
        ACROSS.replace("{barrier}", "ret\n  .globl other\nother: endbr64").replace("{function}", "two"),
    ],
    ids=["__dso_handle", "jump", "branch", "call", "function"],
)
def test_an_argument_of_something_else(assemble: Assemble, source: str, runtime: str) -> None:
    """A value loaded before another call, a jump or a function's start is not an argument of this call."""
    library = assemble(TWO + OLD_GCC.format("one") + source, runtime)
    assert library.kernels(library.path) == {"one": "_Z3onePi"}
    assert library.kernels(library.stripped) == {"one": "_Z3onePi"}


@pytest.mark.parametrize("text", ["../include/alloc.h", "\\300\\204\\335\\r", "", "two words", "1st"])
def test_what_is_no_identifier(assemble: Assemble, text: str) -> None:
    """A text that is no identifier is not taken as a kernel's name."""
    source = TWO.replace("_Z3twov", text) + OLD_GCC.format("one") + OLD_GCC.format("two") + "  ret\n"
    library = assemble(source)
    assert library.kernels(library.path) == {"one": "_Z3onePi"}


def test_two_names(assemble: Assemble) -> None:
    """A host function registered with two names has none; registered twice with one name, it has that name."""
    again = OLD_GCC.replace("leaq {0}(", "leaq two(")
    library = assemble(TWO + 2 * OLD_GCC.format("one") + OLD_GCC.format("two") + again.format("one") + "  ret\n")
    assert library.kernels(library.path) == {"one": "_Z3onePi"}


LAUNCHES = """
.macro stub name, text, before
  .section .rodata
  text_\\name: .asciz "\\text"
  .text
  .balign 16
  \\name:
    subq $88, %rsp
    call pop_configuration
    testl %eax, %eax
    jne 1f
    \\before
    pushq 8(%rsp)
    leaq \\name(%rip), %rdi
    movq 24(%rsp), %rcx
    movl 32(%rsp), %r8d
    leaq 48(%rsp), %r9
    pushq 24(%rsp)
    call launch
    popq %rax
    popq %rdx
  1: addq $88, %rsp
    ret
.endm
pop_configuration: ret
launch: ret
set_attribute: ret
stub one, _Z3onePi
stub two, _Z3twov
stub three, _Z5threev
stub four, _Z4fourv, "leaq one(%rip), %rdi; call set_attribute"
constructor:
"""


def test_a_stripped_runtime_that_is_passed_host_functions(assemble: Assemble) -> None:
    """The function to which most host functions pass themselves is cudaLaunchKernel (until CUDA 12)."""
    names = ("one", "two", "three", "four")
    library = assemble(LAUNCHES + "".join(OLD_GCC.format(name) for name in names) + "  ret\n", "hidden")
    with FileIO(library.stripped) as file:
        elf = ElfFile(file)
        kernels = find_kernels(elf)
        assert len(kernels) == len(names)
        assert find_launch_functions(elf, kernels) == {"cudaLaunchKernel": elf.offset_of(library.addresses["launch"])}
        assert not len(find_handles(elf, kernels).variables)
