"""Protobuf messages, many of one shape at once: a field is a column, and every row becomes a message.

The protobuf library makes one message at a time, which takes twenty times as long (`python -m bench perfetto`).
Messages that have the same fields have the same size: a varint has as many bytes as the largest of its column needs,
which the encoding allows (protobuf.dev/programming-guides/encoding). So they are rows of a matrix that begin as copies
of one row, and each column is put in its place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

Column = np.ndarray[Any, np.dtype[Any]]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2  # wire types
_BITS = 7  # of a varint's byte; the top one says that there are more


@dataclass(frozen=True)
class _Field:
    """A field: what its values are, shape (count,), and in which messages it is; None: in all."""

    tag: bytes
    values: "Column | Messages | int"
    present: Column | None


@dataclass(frozen=True)
class _Place:
    """Where a column's bytes are in a message."""

    offset: int
    width: int
    values: Column


class Messages:
    """As many messages as there are rows, empty at first; each call adds a field, to all or where it is present.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._fields: list[_Field] = []

    def varint(self, number: int, values: Column) -> Self:
        """An integer, shape (count,); a negative one as 64 bits, like int64."""
        numbers = values.astype(np.uint64)
        if self.count and (numbers == numbers[0]).all():
            return self.same(number, int(numbers[0]))
        self._fields.append(_Field(_varint(number << 3 | _VARINT), numbers, None))
        return self

    def same(self, number: int, value: int) -> Self:
        """An integer that is the same in all."""
        self._fields.append(_Field(_varint(number << 3 | _VARINT), value, None))
        return self

    def fixed64(self, number: int, values: Column, present: Column) -> Self:
        """An unsigned integer of 64 bits in those where it is present, shape (count,) each."""
        self._fields.append(_Field(_varint(number << 3 | _FIXED64), values.astype(np.uint64).view(np.int64), present))
        return self

    def double(self, number: int, values: Column) -> Self:
        """A double, shape (count,)."""
        self._fields.append(_Field(_varint(number << 3 | _FIXED64), values.astype(np.float64), None))
        return self

    def message(self, number: int, inner: "Messages", present: Column | None = None) -> Self:
        """A message in each."""
        self._fields.append(_Field(_varint(number << 3 | _LENGTH), inner, present))
        return self

    def append(self, others: "Messages") -> Self:
        """The fields of other messages, which are as many."""
        self._fields += others._fields
        return self

    def taken(self, rows: Column) -> "Messages":
        """Those of these rows."""
        taken = Messages(len(rows))
        for field in self._fields:
            values = field.values
            if isinstance(values, Messages):
                values = values.taken(rows)
            elif not isinstance(values, int):
                values = values[rows]
            taken._fields.append(_Field(field.tag, values, None if field.present is None else field.present[rows]))
        return taken

    def encoded(self) -> bytes:
        """All, one behind the other; those with the same fields follow each other."""
        optional = list(self._optional())
        patterns = np.zeros(self.count, np.uint64)
        for bit, present in enumerate(optional):
            patterns |= present.astype(np.uint64) << np.uint64(bit)
        encoded = []
        for pattern in np.unique(patterns).tolist():
            rows = np.flatnonzero(patterns == pattern)
            row, places = self._shape(bool(pattern >> bit & 1) for bit in range(len(optional)))
            matrix = np.tile(np.frombuffer(row, np.uint8), (len(rows), 1))
            for place in places:
                _put(matrix, place, place.values[rows])
            encoded.append(matrix.tobytes())
        return b"".join(encoded)

    def _optional(self) -> Iterator[Column]:
        """Which messages have a field that not all have, in the order in which `_shape` asks for them."""
        for field in self._fields:
            if field.present is not None:
                yield field.present
            if isinstance(field.values, Messages):
                yield from field.values._optional()

    def _shape(self, there: Iterator[bool]) -> tuple[bytes, list[_Place]]:
        """A message without its columns' values, and where these go."""
        row, places = b"", []
        for field in self._fields:
            has = field.present is None or next(there)
            if isinstance(field.values, Messages):
                inner, inside = field.values._shape(there)
                if has:
                    head = field.tag + _varint(len(inner))
                    places += [_Place(len(row) + len(head) + one.offset, one.width, one.values) for one in inside]
                    row += head + inner
            elif not has:
                continue
            elif isinstance(field.values, int):
                row += field.tag + _varint(field.values)
            else:
                width = _width(int(field.values.max(initial=0))) if field.values.dtype == np.uint64 else 8
                places.append(_Place(len(row) + len(field.tag), width, field.values))
                row += field.tag + bytes(width)
        return row, places


def _put(matrix: Column, place: _Place, values: Column) -> None:
    if values.dtype != np.uint64:  # of a fixed width
        matrix[:, place.offset : place.offset + place.width] = values.view(np.uint8).reshape(len(values), 8)
        return
    for index in range(place.width):
        more = 0x80 if index < place.width - 1 else 0
        matrix[:, place.offset + index] = values >> np.uint64(_BITS * index) & np.uint64(0x7F) | np.uint64(more)


def _width(value: int) -> int:
    return max(1, -(-value.bit_length() // _BITS))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    return bytes(value >> _BITS * i & 0x7F | (0x80 if value >> _BITS * (i + 1) else 0) for i in range(_width(value)))
