"""BTF as the compiler writes it, read back."""

import subprocess
from pathlib import Path

import pytest

from scope_bpf.layout.btf import Array, Btf, Integer, Struct

SOURCE = """
typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u32 again;
enum colour { RED };
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
struct outer outer;
struct bits bits;
const volatile __u32 constant = 7;
int changeable __attribute__((section(".data.own"))) = 1;
"""


@pytest.fixture(scope="module")
def btf(tmp_path_factory: pytest.TempPathFactory) -> Btf:
    folder = tmp_path_factory.mktemp("btf")
    (folder / "types.c").write_text(SOURCE)
    command = ["clang", "-g", "-O2", "-target", "bpf", "-c", folder / "types.c", "-o", folder / "types.o"]
    subprocess.run(command, check=True)
    return Btf.from_file(folder / "types.o")


def test_members_lie_where_the_compiler_put_them(btf: Btf) -> None:
    """Names, offsets and sizes are C's; typedefs of integers keep the name that was written."""
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
    """Pointers, functions, unions and floats have no type here, and do not shift what is behind them."""
    outer = btf.struct("outer")
    assert outer is not None
    types = {member.name: member.type for member in outer.members}
    assert [types[name] for name in ("pointer", "function", "either", "real")] == [None] * 4


def test_bit_fields_keep_their_byte(btf: Btf) -> None:
    """In a struct with bit fields, offsets are encoded otherwise; those of whole members are right."""
    bits = btf.struct("bits")
    assert bits is not None
    assert [(member.name, member.offset) for member in bits.members] == [("few", 0), ("many", 0), ("whole", 4)]


def test_variables_are_found_by_section(btf: Btf) -> None:
    """Constants that are set at load are told from those that programs change."""
    assert (btf.variables["constant"].section, btf.variables["constant"].size) == (".rodata", 4)
    assert btf.variables["changeable"].section == ".data.own"


def test_an_absent_struct_is_none(btf: Btf) -> None:
    """A name that no struct has gives None, a union's included."""
    assert btf.struct("nonsense") is None
    assert btf.struct("either") is None


def test_an_object_without_btf_is_refused() -> None:
    """Any other ELF file is refused with the section named."""
    with pytest.raises(ValueError, match=r"no \.BTF section"):
        Btf.from_file(Path("/proc/self/exe"))
