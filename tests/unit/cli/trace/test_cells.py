"""Columns as texts."""

import pyarrow as pa
import pytest

from scope_bpf.catalogue.stream import Column
from scope_cli.quantities import aligned
from scope_cli.trace.cells import cells, is_number

NUMBERS = [0, 1, 999, 1000, 1001, 999_994, 999_996, 10**6, 123_456_789, 999_995_000, 10**9, 2**40, 2**62, None]


@pytest.mark.parametrize("unit", ["ns", "bytes"])
def test_all_at_once_as_one_by_one(unit: str) -> None:
    """The same text as of a single value, thousands apart."""
    made = cells(pa.array(NUMBERS, pa.uint64()), Column("", unit)).to_pylist()
    assert made == [aligned(number, unit).replace(",", "") for number in NUMBERS]


def test_other_values() -> None:
    """Bits are hexadecimal, lists joined, lines kept one; what is absent is a dash."""
    assert cells(pa.array([255, None, 0], pa.int64()), Column("", hex=True)).to_pylist() == ["0xff", "-", "0x0"]
    assert cells(pa.array([["a", "b\nc"], None]), Column("")).to_pylist() == ["a b\\nc", "-"]
    assert cells(pa.array(["x", None]).dictionary_encode(), Column("")).to_pylist() == ["x", "-"]
    assert cells(pa.array([-2, 7]), Column("")).to_pylist() == ["-2", "7"]
    assert cells(pa.array([True, None]), Column("")).to_pylist() == ["true", "-"]


def test_names_take_no_effect_on_a_terminal() -> None:
    """Colours, line feeds and reversed texts in the names of files are shown as escapes."""
    names = ["plain", "\x1b[31mred", "two\nlines", "\u202eabc", "ä ö", None]
    shown = ["plain", "\\x1b[31mred", "two\\nlines", "\\u202eabc", "ä ö", "-"]
    assert cells(pa.array(names), Column("")).to_pylist() == shown
    assert cells(pa.array(names).dictionary_encode(), Column("")).to_pylist() == shown


def test_numbers_are_aligned_to_the_right() -> None:
    """Bits are not: they are no quantity."""
    assert is_number(pa.array([1]), Column(""))
    assert not is_number(pa.array([1]), Column("", hex=True))
    assert not is_number(pa.array(["1"]), Column(""))
