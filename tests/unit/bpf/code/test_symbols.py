"""Symbol tables: names may share bytes, and large tables need little memory."""

import time
import tracemalloc

import numpy as np
import pytest

from scope_bpf.code import effort as effort_module
from scope_bpf.code.effort import Effort
from scope_bpf.code.symbols import Symbols
from scope_bpf.layout.elf_headers import SYMBOL

FUNCTION, OBJECT, INDIRECT = 0x12, 0x11, 0x1A  # st_info of global symbols


def symbols_of(table: np.ndarray, names: bytes, effort: Effort | None = None) -> Symbols:
    """A table, with its names right after it, as in a file."""
    whole = table.tobytes() + names

    def read(offset: int, size: int) -> bytes:
        return whole[offset : offset + size]

    return Symbols(read, (0, table.nbytes), (table.nbytes, len(names)), effort or Effort({}))


def test_names_that_share_their_end() -> None:
    """A name may be the end of another name's text, as linkers store it. Only whole names are found."""
    names = b"\0cudaMalloc\0cudaMallocAsync\0cu\0"
    entries = [
        (1, 100),
        (1 + 4, 200),
        (1 + names.index(b"cudaMallocAsync") - 1, 300),
        (names.index(b"\0cu\0") + 1, 400),
    ]
    table = np.array([(name, FUNCTION, 0, 1, value, 10) for name, value in entries], SYMBOL)
    found = symbols_of(table, names).addresses(["cudaMalloc", "Malloc", "cudaMallocAsync", "cu", "cuda", "alloc"])
    assert found == {"cudaMalloc": 100, "Malloc": 200, "cudaMallocAsync": 300, "cu": 400}


def test_what_is_defined_elsewhere() -> None:
    """`addresses` finds only functions defined here; `indices` finds undefined symbols and variables too."""
    names = b"\0one\0two\0"
    table = np.array([(1, FUNCTION, 0, 0, 0, 0), (1, OBJECT, 0, 1, 7, 1), (5, FUNCTION, 0, 1, 9, 1)], SYMBOL)
    symbols = symbols_of(table, names)
    assert symbols.addresses(["one", "two"]) == {"two": 9}
    assert symbols.indices("one").tolist() == [0, 1]
    assert symbols.addresses_at(np.array([2, 0, 1, 3])).tolist() == [9, -1, 7, -1]


def test_functions_that_the_loader_chooses() -> None:
    """`strlen` of libc stands for several functions: it is none itself."""
    names = b"\0strlen\0strnlen\0"
    table = np.array([(1, INDIRECT, 0, 1, 100, 10), (8, FUNCTION, 0, 1, 200, 10)], SYMBOL)
    symbols = symbols_of(table, names)
    assert [symbols.is_indirect(name) for name in ("strlen", "strnlen", "nothing")] == [True, False, False]
    assert symbols.containing("str") == [("strnlen", 200)]


def test_the_shortest_of_several_names() -> None:
    """A function with several names is shown with the shortest; a version, as linkers write it, is none of it."""
    names = b"\0__libc_free\0cfree\0free@@GLIBC_2.2.5\0"
    entries = [(1, 100), (names.index(b"cfree"), 100), (names.index(b"\0free") + 1, 100), (1, 50)]
    table = np.array([(name, FUNCTION, 0, 1, value, 10) for name, value in entries], SYMBOL)
    symbols = symbols_of(table, names)
    assert [symbols.name_at(address) for address in (100, 109, 50, 110, 99)] == [
        *("free", "free", "__libc_free"),
        *(None, None),
    ]


def test_a_large_table() -> None:
    """A search in 400,000 symbols with 40 MB of names needs less than 32 MiB, and keeps nearly nothing."""
    count, width = 400_000, 100
    names = np.full((count, width), ord("x"), np.uint8)
    names[:, :2], names[:, -1] = (ord("c"), ord("u")), 0
    digits = np.char.zfill(np.arange(count).astype(str), 8).astype("S8")
    names[:, -9:-1] = digits.view(np.uint8).reshape(count, 8)
    table = np.zeros(count, SYMBOL)
    table["name"], table["info"], table["section"] = np.arange(count) * width, FUNCTION, 1
    table["value"], table["size"] = np.arange(count) * 16, 16
    wanted = {names[at].tobytes().rstrip(b"\0").decode(): at * 16 for at in (0, 41_234, count - 1)}
    symbols = symbols_of(table, names.tobytes())
    del names
    tracemalloc.start()
    try:
        assert symbols.addresses([*wanted, "cudaMalloc"]) == wanted
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert left < 1 << 20
    assert symbols.name_at(41_234 * 16 + 3) in wanted


def test_names_that_contain_a_text() -> None:
    """Every function whose name contains the text, also where its name is the end of another one's text."""
    names = b"\0__libc_malloc\0mallinfo\0calloc\0"
    entries = [
        (1, FUNCTION, 1, 100),
        (1 + len("__libc_"), FUNCTION, 1, 100),  # malloc
        (names.index(b"mallinfo"), FUNCTION, 1, 200),
        (names.index(b"calloc"), FUNCTION, 1, 300),
        (names.index(b"calloc"), FUNCTION, 0, 0),  # defined elsewhere
        (names.index(b"calloc"), OBJECT, 1, 400),
    ]
    table = np.array([(name, info, 0, section, value, 10) for name, info, section, value in entries], SYMBOL)
    symbols = symbols_of(table, names)
    assert sorted(symbols.containing("malloc")) == [("__libc_malloc", 100), ("malloc", 100)]
    assert sorted(symbols.containing("alloc")) == [("__libc_malloc", 100), ("calloc", 300), ("malloc", 100)]
    assert len(symbols.containing("")) == 4
    assert symbols.containing("nothing") == []


def test_names_without_an_end() -> None:
    """A hostile table, whose many names are places in one long text, costs no more than its size."""
    count = 1 << 14
    table = np.zeros(count, SYMBOL)
    table["name"], table["info"], table["section"], table["size"] = np.arange(count) * 16, FUNCTION, 1, 1
    symbols = symbols_of(table, b"ab" * (count * 8))
    assert len(symbols.containing("ab")) == 0
    assert symbols.addresses(["ab" * 8]) == {}
    ended = symbols_of(table, b"ab" * (count * 8 - 1) + b"\0\0")
    assert {len(name) for name, _ in ended.containing("ab")} <= set(range(4096))


def test_a_table_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets so much CPU time, however often its table is searched; then the rest is left out, and that is said.
    Later there is time again, but less."""
    count = 1 << 20
    table = np.zeros(count, SYMBOL)
    table["name"], table["info"], table["section"], table["size"] = np.arange(count) * 4 + 1, FUNCTION, 1, 1
    table["value"] = np.arange(count)
    left_out: dict[str, str] = {}
    symbols = symbols_of(table, b"\0" + b"abc\0" * count, Effort(left_out))
    monkeypatch.setattr(effort_module, "MOST_S", 0.2)
    before = time.thread_time()
    for number in range(1000):
        symbols.indices(f"name {number}")
    assert time.thread_time() - before < 5
    assert left_out == {"effort": "what is left after 0 s of CPU time"}
    monkeypatch.setattr(effort_module, "MOST_S", 100.0)
    assert len(symbols.containing("abc")) == count
