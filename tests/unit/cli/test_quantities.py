"""Numbers as people read and write them: three digits and a unit, never an exponent."""

import argparse

import pytest

from scope_cli.quantities import age, aligned, bytes_of, quantity


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "ns", "0 ns"),
        (999, "ns", "999 ns"),
        (1000, "ns", "1 µs"),
        (999_400, "ns", "999 µs"),
        (999_600, "ns", "1 ms"),
        (999_600_000, "ns", "1 s"),
        (1_234_000_000, "ns", "1.23 s"),
        (999_600_000_000, "ns", "1,000 s"),
        (-1_500_000, "ns", "-1.5 ms"),
        (1023, "bytes", "1023 B"),
        (1536, "bytes", "1.5 KiB"),
        (5 << 40, "bytes", "5 TiB"),
        (1 << 31, "B/s", "2 GiB/s"),
        (61.4, "°C", "61 °C"),
        (1234.56, "1/s", "1,234.6/s"),
        (1234567, "", "1,234,567"),
        (None, "ns", "-"),
        (["a", "b c"], "", "a b c"),
    ],
)
def test_quantities(value: object, unit: str, shown: str) -> None:
    """A value is shown with its unit; a value without a unit is a plain number or text."""
    assert quantity(value, unit) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "ns", "0 ns"),
        (999, "ns", "999 ns"),
        (1000, "ns", "1.00 µs"),
        (999_990, "ns", "999.99 µs"),
        (999_996, "ns", "1.00 ms"),
        (12_345_678_901_234, "ns", "12,345.68 s "),
        (-1_500_000, "ns", "-1.50 ms"),
        (1023, "bytes", "1023 B  "),
        (1 << 20, "bytes", "1.00 MiB"),
        (5 << 50, "bytes", "5,120.00 TiB"),
        (300, "B/s", "300 B/s  "),
        (1 << 31, "B/s", "2.00 GiB/s"),
        (61.4, "°C", "61 °C"),
        (1234.56, "1/s", "1,234.6/s"),
        (1234567, "", "1,234,567"),
        (None, "ns", "-"),
    ],
)
def test_cells_of_a_column_are_aligned(value: float | None, unit: str, shown: str) -> None:
    """Scaled numbers have two decimals and units of equal width, so that right-aligned points are in line."""
    assert aligned(value, unit) == shown


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("1048576", 1 << 20), ("512M", 512 << 20), ("2g", 2 << 30), ("1T", 1 << 40)]
)
def test_bytes_as_they_are_written(text: str, count: int) -> None:
    """A number of bytes is a whole number, with or without a binary unit."""
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "1GB", "1X", "١G", "9" * 30])
def test_what_is_no_number_of_bytes(text: str) -> None:
    """An invalid number of bytes is refused; the message shows how to write one."""
    with pytest.raises(argparse.ArgumentTypeError, match="write it as 512M or 2G"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago"), (200_000, "2 d ago")],
)
def test_ages(seconds: float, shown: str) -> None:
    """An age has the unit that fits; a clock that is ahead gives 0, not a negative age."""
    assert age(seconds) == shown
