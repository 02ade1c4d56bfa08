"""Durations and sizes as people read them."""


def duration(ns: float) -> str:
    """Nanoseconds with three digits and the unit that fits: 1.23 ms."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        value = ns / size
        if abs(value) >= 0.9995:  # as it is shown
            return f"{value:.3g} {unit}" if abs(value) < 999.5 else f"{value:,.0f} {unit}"
    return f"{ns:.0f} ns"


def size(count: float) -> str:
    """Bytes with the binary unit that fits: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
