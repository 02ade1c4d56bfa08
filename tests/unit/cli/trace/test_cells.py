"""Columns as texts."""

import pyarrow as pa
import pytest

from scope_catalogue.codes import Codes
from scope_catalogue.stream import Column
from scope_cli.quantities import aligned
from scope_cli.trace.cells import cells, is_number

NUMBERS = [
    *(0, 1, 999, 1000, 1001, 1023, 1024, 999_994, 999_995, 999_996, 10**6, 123_456_789, 999_995_000, 10**9),
    *(1_048_570, 1_048_571, 1_048_576, 2**40, 2**62, None),
]


@pytest.mark.parametrize("unit", ["ns", "bytes", "B/s"])
def test_all_at_once_as_one_by_one(unit: str) -> None:
    """A whole column gives the same texts as single values, but without thousands separators."""
    made = cells(pa.array(NUMBERS, pa.uint64()), Column("", unit)).to_pylist()
    assert made == [aligned(number, unit).replace(",", "") for number in NUMBERS]


def test_other_values() -> None:
    """Bits are hexadecimal, lists are joined, line feeds are escaped, and an absent value is a dash."""
    assert cells(pa.array([255, None, 0], pa.int64()), Column("", hex=True)).to_pylist() == ["0xff", "-", "0x0"]
    assert cells(pa.array([["a", "b\nc"], None]), Column("")).to_pylist() == ["a b\\nc", "-"]
    assert cells(pa.array(["x", None]).dictionary_encode(), Column("")).to_pylist() == ["x", "-"]
    assert cells(pa.array([-2, 7]), Column("")).to_pylist() == ["-2", "7"]
    assert cells(pa.array([True, None]), Column("")).to_pylist() == ["true", "-"]


def test_errors_and_signals_have_names() -> None:
    """Names of errors and signals follow their numbers; a number without a name stands alone."""
    results = cells(pa.array([-2, 3, None, -4000, -11], pa.int32()), Column("", codes=Codes.ERROR))
    assert results.to_pylist() == ["-2 ENOENT", "3", "-", "-4000", "-11 EAGAIN"]
    signals = cells(pa.array([9, 0, None, 34], pa.uint8()), Column("", codes=Codes.SIGNAL))
    assert signals.to_pylist() == ["9 SIGKILL", "0", "-", "34 SIGRT_2"]


def test_names_take_no_effect_on_a_terminal() -> None:
    """Colours, line feeds and reversed texts in the names of files are shown as escapes."""
    names = ["plain", "\x1b[31mred", "two\nlines", "\u202eabc", "ä ö", None]
    shown = ["plain", "\\x1b[31mred", "two\\nlines", "\\u202eabc", "ä ö", "-"]
    assert cells(pa.array(names), Column("")).to_pylist() == shown
    assert cells(pa.array(names).dictionary_encode(), Column("")).to_pylist() == shown


def test_numbers_are_aligned_to_the_right() -> None:
    """Numbers are aligned to the right; bits are not, because they are no quantity."""
    assert is_number(pa.array([1]), Column(""))
    assert not is_number(pa.array([1]), Column("", hex=True))
    assert not is_number(pa.array(["1"]), Column(""))
