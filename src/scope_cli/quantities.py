"""Numbers as people read and write them."""

import argparse
from dataclasses import dataclass

from scope_views.quantities import duration, size

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def rate(per_second: float) -> str:
    """Bytes a second: 1.5 MiB/s."""
    return f"{size(per_second)}/s"


def per_second(events: float) -> str:
    """Events a second: 12.3/s."""
    return f"{events:,.1f}/s"


def aligned(value: float | None, unit: str) -> str:
    """A cell of a column of numbers that is aligned to the right, so that decimal points stand below each other.

    Durations and bytes have two decimals and the unit that fits (`12.35 ms`), events a second one, whole nanoseconds,
    bytes and other numbers none.
    """
    if value is None:
        return "-"
    if unit == "1/s":
        return per_second(value)
    if unit in SCALES:
        return _scaled(value, SCALES[unit])
    return f"{value:,.0f} {unit}".rstrip()


@dataclass(frozen=True)
class Scale:
    """The units that aligned cells of a column have, such as µs and ms in a column in ns.

    Attributes:
        names: the units, the smallest first, all of the same width.
        sizes: how much of the column's unit each is.
        limit: from this number of one unit on, rounded to two decimals, the next unit is used.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    limit: float


_BINARY = tuple(1 << (10 * power) for power in range(5))
SCALES = {
    "ns": Scale(("ns", "µs", "ms", "s "), (1, 10**3, 10**6, 10**9), 999.995),
    "bytes": Scale(("B  ", "KiB", "MiB", "GiB", "TiB"), _BINARY, 1023.995),
    "B/s": Scale(("B/s  ", "KiB/s", "MiB/s", "GiB/s", "TiB/s"), _BINARY, 1023.995),
}


def _scaled(value: float, scale: Scale) -> str:
    """With the smallest unit that suits; the first has no decimals."""
    index = sum(abs(value) >= size * scale.limit for size in scale.sizes[:-1])
    number = f"{value / scale.sizes[index]:,.2f}" if index else f"{value:.0f}"
    return f"{number} {scale.names[index]}"


_BY_UNIT = {"ns": duration, "bytes": size, "B/s": rate, "1/s": per_second}


def quantity(value: object, unit: str) -> str:
    """A cell of a table: by unit if it has one."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    if isinstance(value, int | float):
        if unit in _BY_UNIT:
            return _BY_UNIT[unit](value)
        return f"{value:,.0f} {unit}".rstrip()
    return str(value)


def bytes_of(text: str) -> int:
    """Bytes, written as a whole number with K, M, G or T (binary) behind it or without: 512M.

    Raises:
        argparse.ArgumentTypeError: it is written otherwise.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    power = ("", "K", "M", "G", "T").index(unit.upper()) if unit.upper() in ("", "K", "M", "G", "T") else -1
    if power < 0 or not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of bytes; write it as 512M or 2G")
    return int(number) << (10 * power)


def seconds_of(text: str) -> float:
    """A time as people write it, such as 30m, 12h or 1d, in seconds; for argparse.

    Raises:
        argparse.ArgumentTypeError: the text is none.
    """
    unit = _SECONDS.get(text[-1:])
    try:
        number = float(text[:-1] if unit else text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no time; write it as 30m, 12h or 1d")
    return number * (unit or 1)


def age(seconds: float) -> str:
    """How long ago, in the unit that fits: 5 s ago, 3 min ago."""
    for unit, size_s in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size_s:
            return f"{seconds / size_s:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"
