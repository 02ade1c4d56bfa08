"""Reading the BTF that a compiler writes."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from scope_bpf.layout.btf import Array, Btf, Enum, Integer, Struct

SOURCE = """
typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u32 again;
enum colour { RED };
enum sign { BELOW = -1, NEITHER, ABOVE = 70000 };
union either { int a; long b; };
struct inner { char name[16]; volatile const again word; };
struct outer {
	__u64 number;
	struct inner inner;
	__u8 octets[3][5];
	short negative;
	void *pointer;
	int (*function)(int);
	enum colour colour;
	union either either;
	float real;
};
struct bits { unsigned int few : 3; unsigned int many : 29; int whole; };
enum sign sign;
struct outer outer;
struct bits bits;
const volatile __u32 constant = 7;
int changeable __attribute__((section(".data.own"))) = 1;
"""


@pytest.fixture(scope="module")
def btf(tmp_path_factory: pytest.TempPathFactory) -> Btf:
    return Btf.from_file(_compiled(tmp_path_factory.mktemp("btf"), SOURCE))


def _compiled(folder: Path, source: str) -> Path:
    (folder / "types.c").write_text(source)
    command: list[str | Path] = [
        "clang",
        "-g",
        "-O2",
        "-target",
        "bpf",
        "-c",
        folder / "types.c",
        "-o",
        folder / "types.o",
    ]
    subprocess.run(command, check=True)
    return folder / "types.o"


def test_members_lie_where_the_compiler_put_them(btf: Btf) -> None:
    """Names, offsets and sizes are as in C. A typedef of an integer keeps its own name."""
    outer = btf.struct("outer")
    assert outer is not None
    assert [(member.name, member.offset) for member in outer.members[:4]] == [
        ("number", 0),
        ("inner", 8),
        ("octets", 28),
        ("negative", 44),
    ]
    types = {member.name: member.type for member in outer.members}
    assert types["number"] == Integer("__u64", 8, signed=False)
    assert types["negative"] == Integer("short", 2, signed=True)
    inner = types["inner"]
    assert isinstance(inner, Struct)
    assert (inner.name, inner.size) == ("inner", 20)
    name, word = inner.members
    assert isinstance(name.type, Array)
    assert isinstance(name.type.element, Integer)
    assert (name.type.element.name, name.type.count) == ("char", 16)
    assert word.type == Integer("again", 4, signed=False)


def test_what_is_no_column_is_none(btf: Btf) -> None:
    """The type of a pointer, a function, a union or a float is None."""
    outer = btf.struct("outer")
    assert outer is not None
    types = {member.name: member.type for member in outer.members}
    assert [types[name] for name in ("pointer", "function", "either", "real")] == [None] * 4


def test_bit_fields_keep_their_byte(btf: Btf) -> None:
    """The offsets in a struct with bit fields, which BTF encodes differently, are read right."""
    bits = btf.struct("bits")
    assert bits is not None
    assert [(member.name, member.offset) for member in bits.members] == [("few", 0), ("many", 0), ("whole", 4)]


def test_enums_have_names_and_values(btf: Btf) -> None:
    """Enumerators have their order and values from C, also negative ones. A member's type includes them."""
    assert btf.enum("sign") == {"BELOW": -1, "NEITHER": 0, "ABOVE": 70000}
    assert btf.enum("outer") is None
    outer = btf.struct("outer")
    assert outer is not None
    assert {member.name: member.type for member in outer.members}["colour"] == Enum("colour", 4, False, (("RED", 0),))


def test_wide_enums_are_read(tmp_path: Path) -> None:
    """Enumerators of 64 bits, written by compilers since LLVM 15, are read as signed or unsigned."""
    text = b"\0wide\0MOST\0below\0LEAST\0"
    wide = struct.pack("<IIIIQ", 1, 19 << 24 | 1, 8, 6, (1 << 64) - 1)
    below = struct.pack("<IIIIq", 11, 1 << 31 | 19 << 24 | 1, 8, 17, -(1 << 40))
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(wide + below), len(wide + below), len(text))
    (tmp_path / "btf").write_bytes(header + wide + below + text)
    add = ["--remove-section=.BTF", f"--add-section=.BTF={tmp_path / 'btf'}"]
    subprocess.run([shutil.which("llvm-objcopy") or "objcopy", *add, _compiled(tmp_path, "int a;")], check=True)
    btf = Btf.from_file(tmp_path / "types.o")
    assert (btf.enum("wide"), btf.enum("below")) == ({"MOST": (1 << 64) - 1}, {"LEAST": -(1 << 40)})


def test_variables_are_found_by_section(btf: Btf) -> None:
    """A variable's section distinguishes constants set at load from variables that programs change."""
    assert (btf.variables["constant"].section, btf.variables["constant"].size) == (".rodata", 4)
    assert btf.variables["changeable"].section == ".data.own"


def test_an_absent_struct_is_none(btf: Btf) -> None:
    """A name that is not a struct's gives None; so does the name of a union."""
    assert btf.struct("nonsense") is None
    assert btf.struct("either") is None


def test_an_object_without_btf_is_refused() -> None:
    """An ELF file without BTF is refused; the message names the section."""
    with pytest.raises(ValueError, match=r"no \.BTF section"):
        Btf.from_file(Path("/proc/self/exe"))
