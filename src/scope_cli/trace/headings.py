"""Columns' names above cells that have their unit."""

from collections.abc import Iterable

_UNITS = ("_ns", "_bytes", "_percent", "_celsius", "_watts", "_mhz")


def headings_of(names: Iterable[str]) -> dict[str, str]:
    """Each name with its heading: without the unit, unless two columns would have the same one."""
    short = {name: name.removesuffix(next(filter(name.endswith, _UNITS), "")) for name in names}
    alike = list(short.values())
    return {name: heading if alike.count(heading) == 1 else name for name, heading in short.items()}
