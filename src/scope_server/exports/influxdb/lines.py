"""InfluxDB's line protocol: docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol.

MEASUREMENT,TAG=VALUE,... FIELD=1i,FIELD=2.5 NANOSECONDS
"""

import math
from collections.abc import Iterable

from scope_server.exports.contract import Kind, Point, Value
from scope_views.printable import printable

_MEASUREMENT = str.maketrans({",": "\\,", " ": "\\ "})
_OTHERS = _MEASUREMENT | {ord("="): "\\="}


def lines(points: Iterable[Point]) -> list[str]:
    """A line of each point that has a value. The time of a minute is its begin, as its rows are labelled elsewhere."""
    told = (_line(point) for point in points)
    return [line for line in told if line]


def _line(point: Point) -> str:
    values = ((name, _value(value)) for name, value in sorted(point.values.items()))
    fields = ",".join(f"{_escaped(name)}={value}" for name, value in values if value)
    if not fields:
        return ""
    tags = "".join(f",{_escaped(name)}={_escaped(value)}" for name, value in sorted(point.labels) if value)
    at_ns = point.since_ns if point.of.kind is Kind.MINUTE else point.time_ns
    return f"{_escaped(point.of.name, measurement=True)}{tags} {fields} {at_ns}"


def _value(value: Value) -> str:
    """Empty for what a field cannot be."""
    if isinstance(value, int):
        return f"{value}i"
    return repr(value) if math.isfinite(value) else ""


def _escaped(text: str, measurement: bool = False) -> str:
    """A name or a tag's value. A backslash stands for itself, except before what can be escaped: none may be the last.

    A measurement that begins with # would be a comment; none of ours does.
    """
    text = printable(text)
    return (f"{text} " if text.endswith("\\") else text).translate(_MEASUREMENT if measurement else _OTHERS)
