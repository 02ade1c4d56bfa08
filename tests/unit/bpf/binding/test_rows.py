"""Text columns from records: the text is valid UTF-8, paths start at the root, damaged records raise an error."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scope_bpf.binding.ffi import ffi
from scope_bpf.capture.batch import RawBatch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.catalogue.stream import Stream
from scope_bpf.errors import KernelError
from scope_bpf.layout.fields import Field, Kind, Layout
from scope_catalogue.stream import Column

_SLICE = np.dtype([("offset", "<u4"), ("length", "<u4")])
ARROW = {Kind.TEXT: pa.string(), Kind.PATH: pa.string(), Kind.TEXT_LIST: pa.list_(pa.string())}


def batch(kind: Kind, tails: list[bytes], slices: list[tuple[int, int]] | None = None) -> RawBatch:
    """Records with one text field; a slice (offset, length) per record, by default its whole tail."""
    layout = Layout(8, (Field("text", 0, kind, _SLICE, ARROW[kind]),))
    rows = np.array(slices or [(0, len(tail)) for tail in tails], _SLICE).view(layout.dtype).reshape(len(tails))
    starts = np.cumsum([0, *(len(tail) for tail in tails[:-1])]).astype(np.uint64)
    kept: dict[str, Any] = {
        "rows": ffi.from_buffer("uint8_t[]", rows),
        "tails": ffi.from_buffer("uint8_t[]", b"".join(tails) or b"\0"),
        "tail_starts": ffi.from_buffer("uint64_t[]", starts),
    }
    native = ffi.new(
        "scope_rows *",
        {**kept, "count": len(tails), "row_size": 8, "tail_bytes": sum(len(tail) for tail in tails)},
    )
    raw = RawBatch(Stream("things", "", {"text": Column("")}), layout, pa.schema([("text", ARROW[kind])]), rows, native)
    _KEPT[id(raw)] = kept
    return raw


_KEPT: dict[int, dict[str, Any]] = {}  # cffi does not keep alive the memory that a struct points to


def texts(raw: RawBatch) -> list[Any]:
    """The text column of the records."""
    result: list[Any] = to_arrow(raw)["text"].to_pylist()
    return result


@pytest.mark.parametrize(
    "bytes_",
    [
        *(b"", b"plain", "é€😀".encode(), b"a\x00b", bytes(range(256))),
        *(b"\xff", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80", b"\xed\xa0\x80"),
        *(b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x80\xe2\x82\xac\x80"),
    ],
)
def test_bytes_that_are_not_utf8_are_escaped(bytes_: bytes) -> None:
    """Invalid bytes are escaped as by Python's backslashreplace. A NUL is escaped too, for PostgreSQL."""
    assert texts(batch(Kind.TEXT, [bytes_])) == [bytes_.decode(errors="backslashreplace").replace("\0", "\\x00")]


@pytest.mark.parametrize(
    ("tail", "path"),
    [
        (b"c/b/a/\0name", "/a/b/c/name"),
        (b"\0name", "/name"),
        (b"\0/etc/x", "/etc/x"),
        (b"root/\0/etc/x", "/root/etc/x"),
        (b"b/a/\0", "/a/b"),
        (b"\0", "/"),
        (b"a/\0../x", "/a/../x"),
        (b"\xff/a/\0y", "/a/\\xff/y"),
        (b"", ""),
    ],
)
def test_paths_are_turned_round(tail: bytes, path: str) -> None:
    """A record has the directories leaf first, then a NUL, then the name below them; the column has the usual path."""
    assert texts(batch(Kind.PATH, [tail])) == [path]


def test_lists_are_cut_at_their_nuls() -> None:
    """Each string ends with a NUL, except a last string that was cut. Empty strings are kept."""
    assert texts(batch(Kind.TEXT_LIST, [b"a\0\0b c\0", b"", b"cut\0off"])) == [["a", "", "b c"], [], ["cut", "off"]]


def test_many_records_keep_their_own_text() -> None:
    """The offset of a text counts from the start of its own record's tail."""
    tails = [b"x" * n + b"|" for n in range(101)]
    assert texts(batch(Kind.TEXT, tails)) == [tail.decode() for tail in tails]


@pytest.mark.parametrize("slice_", [(0, 4), (3, 1), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF)])
@pytest.mark.parametrize("kind", list(ARROW))
def test_a_piece_outside_its_record_is_told(kind: Kind, slice_: tuple[int, int]) -> None:
    """A record that refers to text outside itself is reported as damaged."""
    with pytest.raises(KernelError, match="a record of 'things' is damaged"):
        texts(batch(kind, [b"abc"], [slice_]))
