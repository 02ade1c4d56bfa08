"""Reads the declared size of a compressed Arrow stream, before decompressing anything.

A few hundred bytes can declare gigabytes, or really decompress to gigabytes. Each compressed buffer begins with its
decompressed length (int64); the message's flatbuffer has the places of the buffers. Formats: Arrow's
format/Message.fbs, and https://flatbuffers.dev/internals/.
"""

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scope_server.errors import Rejected

_RECORD_BATCH = 3  # MessageHeader in Message.fbs
_DICTIONARY_BATCH = 2
_MOST_MESSAGES = 256  # a schema, a few dictionaries, a batch
_MOST_BUFFERS = 4096
_PREFIX = 8  # bytes of a compressed buffer: its decompressed length

_Integers = npt.NDArray[np.int64]
_NONE: _Integers = np.array([], np.int64)


def declared_bytes(arrow_ipc: bytes) -> int:
    """Decompressed size in bytes of all buffers of an Arrow IPC stream, as declared.

    Raises:
        Rejected: this is not an Arrow IPC stream, or it has too many parts.
    """
    total = buffers = 0
    try:
        for number, message in enumerate(pa.ipc.MessageReader.open_stream(arrow_ipc)):
            if number == _MOST_MESSAGES:
                raise Rejected("too_large", f"an Arrow stream of more than {_MOST_MESSAGES} messages")
            if message.body is None:
                continue
            declared = _declared(message.metadata.to_pybytes(), np.frombuffer(message.body, np.uint8))
            total += sum(declared.tolist())  # of Python's integers, which do not overflow
            buffers += len(declared)
            if buffers > _MOST_BUFFERS:
                raise Rejected("too_large", f"an Arrow stream of more than {_MOST_BUFFERS} buffers")
    except Rejected:
        raise
    except (pa.ArrowException, OSError, struct.error, IndexError, ValueError) as error:
        raise Rejected("corrupt", f"not an Arrow stream: {_first_line(error)}") from error
    return total


class _Table:
    """A flatbuffer table: fields are found through the offsets in its vtable."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.vtable = at - _read("<i", data, at)

    def field(self, index: int) -> int | None:
        """The position of a field; None if it is absent."""
        slot = 4 + 2 * index
        if slot >= _read("<H", self.data, self.vtable):
            return None
        offset = _read("<H", self.data, self.vtable + slot)
        return self.at + offset if offset else None

    def table(self, index: int) -> "_Table":
        """A field that is a table."""
        at = self.field(index)
        if at is None:
            raise ValueError("a part of the message is missing")
        return _Table(self.data, at + _read("<I", self.data, at))


def _declared(metadata: bytes, body: npt.NDArray[np.uint8]) -> _Integers:
    message = _Table(metadata, _read("<I", metadata, 0))
    kind_at = message.field(1)
    kind = metadata[kind_at] if kind_at is not None else 0
    if kind not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return _NONE
    batch = message.table(2)
    if kind == _DICTIONARY_BATCH:
        batch = batch.table(1)
    compressed = batch.field(3) is not None
    vector = batch.field(2)
    if vector is None:
        return _NONE
    vector += _read("<I", metadata, vector)
    count = min(_read("<I", metadata, vector), _MOST_BUFFERS + 1)
    places = np.frombuffer(metadata, "<i8", 2 * count, vector + 4).reshape(-1, 2)
    # All at once: a batch has a hundred buffers, and this runs in the event loop.
    some = places[:, 1] != 0
    offsets, lengths = places[some].T
    if np.any((offsets < 0) | (lengths < 0) | (offsets > len(body)) | (lengths > len(body) - offsets)):
        raise ValueError("a buffer lies outside of its message")
    declared = np.zeros(count, np.int64)
    if compressed:
        if np.any(lengths < _PREFIX):
            raise ValueError("a buffer is too short")
        told = body[offsets[:, None] + np.arange(_PREFIX)].view("<i8")[:, 0]
        if np.any(told < -1):
            raise ValueError("a buffer has a negative length")
        lengths = np.where(told == -1, lengths, told)  # -1: this buffer is not compressed
    declared[some] = lengths
    return declared


def _read(kind: str, data: bytes, at: int) -> int:
    if at < 0:
        raise ValueError("an offset points before the message")
    return int(struct.unpack_from(kind, data, at)[0])


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
