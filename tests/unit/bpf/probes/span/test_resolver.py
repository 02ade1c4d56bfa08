"""Names and numbers of calls."""

from typing import Any

import numpy as np
import pytest

from scope_bpf.code.history import History, Mapped
from scope_bpf.probes.span import PROBE
from scope_bpf.probes.span.declaration import parse
from scope_bpf.probes.span.resolver import _arguments, _functions, _texts

EVENTS, SUMMARY = PROBE.streams


class _Module:
    """Stands in for a file whose functions all have this name."""

    def __init__(self, name: str) -> None:
        self.name, self.path = name, f"/{name}"

    def name_at(self, _: int) -> str | None:
        return self.name or None

    def place_of(self, offset: int) -> str:
        return f"file+{offset:#x}"


def test_a_name_is_of_the_code_at_that_time() -> None:
    """If another file's code took an address, earlier calls keep their name. Unknown code has no name."""
    history = History()
    process = history.begin(7, 100)
    for since_ns, name in ((110, "older"), (130, "newer"), (150, "")):
        module: Any = _Module(name)
        history.add(process, Mapped(since_ns, 0x1000, 0x2000, 0x500, module))
    history.told_ns = 1000
    rows = np.zeros(6, PROBE.layout(EVENTS).dtype)
    rows["pid"], rows["start_ns"], rows["address"] = (7, 7, 7, 7, 7, 8), 90, (*(0x1010,) * 4, 0x3000, 0x1010)
    rows["ktime_ns"] = (120, 140, 120, 160, 120, 120)
    columns = _functions(history, EVENTS, rows, [parse("f:f")])
    assert columns["function"].to_pylist() == ["older", "newer", "older", "file+0x510", None, None]
    assert columns["file"].to_pylist() == ["/older", "/newer", "/older", "/", None, None]


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("u8", ["0", "254", "1"]),
        ("i8", ["0", "-2", "1"]),
        ("u32", ["0", "4294967294", "257"]),
        ("i64", ["0", "-2", "257"]),
        ("u64", ["0", "18446744073709551614", "257"]),
        ("ptr", ["0x0", "0xfffffffffffffffe", "0x101"]),
        ("bool", ["false", "true", "true"]),
    ],
)
def test_numbers_as_text(type_: str, texts: list[str]) -> None:
    """A number is the lowest bytes of what was kept."""
    assert _texts(type_, np.array([0, 2**64 - 2, 257], np.uint64)).to_pylist() == texts


def test_numbers_that_were_unreadable_are_left_out() -> None:
    """Each row has the numbers of its own declaration; a row without any is null."""
    declarations = [parse("l:f a=arg0:i32 b=arg1:ptr"), parse("l:g"), parse("l:h c=ret")]
    rows = np.zeros(5, PROBE.layout(EVENTS).dtype)
    rows["place"], rows["kept"] = (2, 0, 1, 0, 0), (1, 0b11, 0, 0b10, 0)
    rows["value0"], rows["value1"] = (9, 2**32 - 1, 0, 5, 5), 16
    assert _arguments(declarations, rows).to_pylist() == ["c=9", "a=-1 b=0x10", None, "b=0x10", None]
    assert _arguments(declarations, rows[:0]).to_pylist() == []
