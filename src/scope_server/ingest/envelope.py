"""Reads the declared size of a compressed Arrow stream, before decompressing anything.

A few hundred bytes can declare gigabytes, or really decompress to gigabytes. Each compressed buffer begins with its
decompressed length (int64); the message's flatbuffer has the places of the buffers. Formats: Arrow's
format/Message.fbs and docs/source/format/Columnar.rst ("Encapsulated message format"), and
https://flatbuffers.dev/internals/.

This runs in the event loop for every batch, so it reads what it needs and no more: Arrow's own reader, which makes an
object of each message, takes five times as long.
"""

import struct

from scope_server.errors import Rejected

_CONTINUES = 0xFFFFFFFF  # begins each message
_V5 = 4  # MetadataVersion in Message.fbs; batches of earlier versions may tell their compression in another place
_RECORD_BATCH = 3  # MessageHeader in Message.fbs
_DICTIONARY_BATCH = 2
_MOST_MESSAGES = 256  # a schema, a few dictionaries, a batch
_MOST_BUFFERS = 4096
_PREFIX = 8  # bytes of a compressed buffer: its decompressed length

_HEAD = struct.Struct("<Ii")
_PLACE = struct.Struct("<qq")
_I16, _U16, _I32, _U32, _I64 = (struct.Struct(f"<{kind}") for kind in "hHiIq")


def declared_bytes(arrow_ipc: bytes) -> int:
    """Decompressed size in bytes of all buffers of an Arrow IPC stream, as declared.

    Raises:
        Rejected: this is not an Arrow IPC stream, or it has too many parts.
    """
    total = buffers = messages = at = 0
    try:
        while at < len(arrow_ipc):
            continues, size = _HEAD.unpack_from(arrow_ipc, at)
            if continues != _CONTINUES or size < 0:
                raise ValueError("a message does not begin where the one before it ends")
            if not size:
                break
            if messages == _MOST_MESSAGES:
                raise Rejected("too_large", f"an Arrow stream of more than {_MOST_MESSAGES} messages")
            metadata = at + _HEAD.size
            message = _Table(arrow_ipc, metadata + _read(_U32, arrow_ipc, metadata))
            body = metadata + size
            at = body + message.integer(_I64, 3)
            if not body <= at <= len(arrow_ipc):
                raise ValueError("a message is cut")
            declared, count = _declared(message, body, at, _MOST_BUFFERS - buffers)
            total, buffers, messages = total + declared, buffers + count, messages + 1
    except Rejected:
        raise
    except (struct.error, ValueError) as error:
        raise Rejected("corrupt", f"not an Arrow stream: {error}") from error
    if not messages:
        raise Rejected("corrupt", "not an Arrow stream: it is empty")
    return total


class _Table:
    """A flatbuffer table: fields are found through the offsets in its vtable."""

    __slots__ = ("at", "data", "fields", "vtable")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.vtable = at - _read(_I32, data, at)
        self.fields = (_read(_U16, data, self.vtable) - 4) // 2

    def field(self, index: int) -> int | None:
        """The position of a field; None if it is absent."""
        if index >= self.fields:
            return None
        offset = _read(_U16, self.data, self.vtable + 4 + 2 * index)
        return self.at + offset if offset else None

    def integer(self, kind: struct.Struct, index: int) -> int:
        """A field that is an integer; 0 if it is absent."""
        at = self.field(index)
        return 0 if at is None else _read(kind, self.data, at)

    def table(self, index: int) -> "_Table":
        """A field that is a table."""
        at = self.field(index)
        if at is None:
            raise ValueError("a part of the message is missing")
        return _Table(self.data, at + _read(_U32, self.data, at))


def _declared(message: _Table, body: int, end: int, most: int) -> tuple[int, int]:
    # Of a message whose body lies from `body` to `end`: bytes, and number of buffers.
    data, at = message.data, message.field(1)
    kind = data[at] if at is not None and at < len(data) else 0
    if kind not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return 0, 0
    if message.integer(_I16, 0) != _V5:
        raise ValueError("it is of a version before 1.0")
    batch = message.table(2)
    if kind == _DICTIONARY_BATCH:
        batch = batch.table(1)
    compressed = batch.field(3) is not None
    vector = batch.field(2)
    if vector is None:
        return 0, 0
    vector += _read(_U32, data, vector)
    count = _read(_U32, data, vector)
    if count > most:
        raise Rejected("too_large", f"an Arrow stream of more than {_MOST_BUFFERS} buffers")
    places, total = vector + _U32.size, 0
    ends = places + count * _PLACE.size
    if ends > body:
        raise ValueError("a message is cut")
    for offset, length in _PLACE.iter_unpack(data[places:ends]):
        if not length:
            continue
        if offset < 0 or length < 0 or body + offset + length > end:
            raise ValueError("a buffer lies outside of its message")
        total += _decompressed(data, body + offset, length) if compressed else length
    return total, count


def _decompressed(data: bytes, at: int, length: int) -> int:
    if length < _PREFIX:
        raise ValueError("a buffer is too short")
    told = _read(_I64, data, at)
    if told < -1:
        raise ValueError("a buffer has a negative length")
    return length if told == -1 else told  # -1: this buffer is not compressed


def _read(kind: struct.Struct, data: bytes, at: int) -> int:
    if at < 0:
        raise ValueError("an offset points before the message")
    (value,) = kind.unpack_from(data, at)
    return int(value)
