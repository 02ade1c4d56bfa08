"""Numbers as people read them: three digits and a unit, never an exponent."""

import pytest

from scope_cli.quantities import quantity


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
        (1234567, "", "1,234,567"),
        (None, "ns", "-"),
        (["a", "b c"], "", "a b c"),
    ],
)
def test_quantities(value: object, unit: str, shown: str) -> None:
    """By unit; what has none is a plain number or text."""
    assert quantity(value, unit) == shown
