"""Converting handmade records to columns. More tests of text are in binding/test_rows.py."""

import ipaddress
import itertools
import random
import struct
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scope_bpf.binding.ffi import ffi
from scope_bpf.capture.batch import RawBatch, raw_batch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.catalogue.stream import Derived, Made, Names, Stream, Tails
from scope_bpf.layout.fields import Field, Kind, Layout
from scope_catalogue.stream import Column

SLICE = np.dtype([("offset", "<u4"), ("length", "<u4")])


def batch(kind: Kind, arrow: pa.DataType, tails: Sequence[bytes], spans: Sequence[tuple[int, int]] = ()) -> RawBatch:
    """A batch of one text column; a span (offset, length) per record, by default its whole tail."""
    layout = Layout(8, (Field("it", 0, kind, SLICE, arrow),))
    fixed = b"".join(struct.pack("<II", *span) for span in spans or [(0, len(tail)) for tail in tails])
    starts = np.cumsum([0, *map(len, tails)])[:-1].astype(np.uint64)
    native = ffi.new("scope_rows *")
    native.count, native.row_size, native.tail_bytes = len(tails), 8, sum(map(len, tails))
    kept = [
        ffi.from_buffer("uint8_t[]", fixed),
        ffi.from_buffer("uint8_t[]", b"".join(tails)),
        ffi.from_buffer("uint64_t[]", starts),
    ]
    native.rows, native.tails, native.tail_starts = kept
    raw = raw_batch(Stream("thing", "a thing", columns={}), layout, pa.schema([("it", arrow)]), native)
    KEPT.append((native, kept))
    return raw


KEPT: list[Any] = []  # memory that the batches point to


def escaped(text: bytes) -> str:
    """The text that Python makes of bytes. NUL is escaped too, since no text column may contain it."""
    return text.decode(errors="backslashreplace").replace("\0", "\\x00")


def test_any_bytes_become_valid_text() -> None:
    """Random bytes, many of them lead and continuation bytes, become valid text: the same as Python's."""
    dice = random.Random(1009)
    likely = [0, 0x41, 0x80, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF]
    samples = [
        bytes(dice.choice(likely) if dice.random() < 0.8 else dice.randrange(256) for _ in range(dice.randrange(13)))
        for _ in range(5003)
    ]
    column = to_arrow(batch(Kind.TEXT, pa.string(), samples))["it"]
    column.validate(full=True)
    # Python treats an incomplete sequence as one error, but escapes it byte by byte: the text is the same
    assert column.to_pylist() == [escaped(sample) for sample in samples]


def test_a_slice_up_to_the_end_is_whole() -> None:
    """A slice may include the last byte of its tail."""
    raw = batch(Kind.TEXT, pa.string(), [b"abc", b"def"], [(1, 2), (3, 0)])
    assert to_arrow(raw)["it"].to_pylist() == ["bc", ""]


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.PATH, Kind.TEXT_LIST], ids=lambda kind: kind.value)
def test_a_batch_of_nothing_has_its_columns(kind: Kind) -> None:
    """An empty batch has no rows and the same schema."""
    arrow = pa.list_(pa.string()) if kind is Kind.TEXT_LIST else pa.string()
    made = to_arrow(batch(kind, arrow, []))
    assert (made.num_rows, made.schema) == (0, pa.schema([("it", arrow)]))


def plain(
    rows: np.ndarray[Any, np.dtype[Any]], schema: pa.Schema, fields: tuple[Field, ...], **stream: Any
) -> RawBatch:
    """A batch without tails."""
    return RawBatch(Stream("thing", "a thing", columns={}, **stream), Layout(rows.itemsize, fields), schema, rows)


def test_names_end_at_the_first_nul() -> None:
    """Bytes after a name's first NUL, left by older kernels, are ignored. Bytes that are no text are escaped."""
    names = pa.dictionary(pa.int32(), pa.string())
    rows = np.array([(b"sh",), (b"ls\0old",), (b"full-16-bytes-xx",), (b"\xff",), (b"sh",)], [("comm", "S16")])
    field = Field("comm", 0, Kind.NAME, np.dtype("S16"), names)
    column = to_arrow(plain(rows, pa.schema([("comm", names)]), (field,)))["comm"]
    assert column.to_pylist() == ["sh", "ls", "full-16-bytes-xx", "\\xff", "sh"]
    assert len(column.dictionary) == 4


def test_an_enum_is_its_names() -> None:
    """A value without a name is shown as its number. The dictionary has only the values in the rows."""
    names = pa.dictionary(pa.int32(), pa.string())
    rows = np.array([(1,), (-7,), (2,), (1,)], [("state", "<i4")])
    field = Field("state", 0, Kind.ENUM, np.dtype("<i4"), names, {1: "idle", 2: "busy", 3: "gone"})
    column = to_arrow(plain(rows, pa.schema([("state", names)]), (field,)))["state"]
    assert column.to_pylist() == ["idle", "-7", "busy", "idle"]
    assert sorted(column.dictionary.to_pylist()) == ["-7", "busy", "idle"]


def test_addresses_are_text_as_people_write_it() -> None:
    """IPv4 and IPv6 addresses become text; bytes after an IPv4 address are ignored. Other families give null."""
    names = pa.dictionary(pa.int32(), pa.string())
    dtype = np.dtype([("family", "<u4"), ("bytes", "u1", 16)])
    six = list(ipaddress.ip_address("2001:db8::1").packed)
    given = [(2, [10, 0, 0, 1] + [0] * 12), (10, six), (2, [10, 0, 0, 1] + [9] * 12), (0, [0] * 16), (1, six)]
    rows = np.array([(each,) for each in given], [("source", dtype)])
    field = Field("source", 0, Kind.ADDRESS, dtype, names)
    column = to_arrow(plain(rows, pa.schema([("source", names)]), (field,)))["source"]
    assert column.to_pylist() == ["10.0.0.1", "2001:db8::1", "10.0.0.1", None, None]
    assert len(column.dictionary) == 2


def test_rows_of_no_process_have_none() -> None:
    """If the pid is 0, the columns about the process are null. The name of a task, such as the idle task, is kept."""
    names = pa.dictionary(pa.int32(), pa.string())
    dtype = [("pid", "<i4"), ("uid", "<u4"), ("cpu", "<u2"), ("comm", "S16")]
    rows = np.array([(7, 0, 1, b"sh"), (0, 0, 1, b""), (0, 0, 0, b"swapper/0")], dtype)
    types = {"pid": pa.int32(), "uid": pa.uint32(), "cpu": pa.uint16(), "comm": names}
    fields = tuple(
        Field(name, 0, Kind.NAME if name == "comm" else Kind.NUMBER, rows.dtype[name], type_)
        for name, type_ in types.items()
    )
    made = to_arrow(plain(rows, pa.schema(types), fields)).to_pydict()
    assert made == {"pid": [7, None, None], "uid": [0, None, None], "cpu": [1, 1, 0], "comm": ["sh", None, "swapper/0"]}


def test_a_number_is_null_where_its_switch_is_off() -> None:
    """With `null_unless`, a value is null in the rows whose switch is 0."""
    rows = np.array([(7, 1), (0, 1), (9, 0)], [("ret", "<i4"), ("returned", "u1")])
    fields = (
        Field("ret", 0, Kind.NUMBER, np.dtype("<i4"), pa.int32()),
        Field("returned", 4, Kind.NUMBER, np.dtype("u1"), pa.uint8()),
    )
    raw = plain(rows, pa.schema([("ret", pa.int32())]), fields, null_unless={"ret": "returned"}, hidden=("returned",))
    assert to_arrow(raw)["ret"].to_pylist() == [7, 0, None]


def test_only_the_columns_asked_for_are_made() -> None:
    """Only the requested columns are made; derived columns are not computed unless requested."""

    def derive(rows: Any) -> dict[str, pa.Array]:
        calls.append(len(rows))
        return {"twice": pa.array(rows["a"] * 2)}

    calls: list[int] = []
    rows = np.array([(1,), (2,)], [("a", "<i8")])
    field = Field("a", 0, Kind.NUMBER, np.dtype("<i8"), pa.int64())
    schema = pa.schema([("a", pa.int64()), ("twice", pa.int64())])
    made = Made(derived={"twice": Derived(Column("a, twice"), pa.int64())}, derive=derive)
    raw = plain(rows, schema, (field,), made=made)
    assert to_arrow(raw, only=["a"]).schema.names == ["a"]
    assert calls == []
    assert to_arrow(raw, only=["twice"])["twice"].to_pylist() == [2, 4]
    assert to_arrow(raw).to_pydict() == {"a": [1, 2], "twice": [2, 4]}


@pytest.mark.parametrize("count", [1, 2])
def test_columns_outlive_the_batch(count: int) -> None:
    """An Arrow batch copies the records, even a single row, because the shim frees their memory."""
    rows = np.array([(1, [2, 3])] * count, [("a", "<i8"), ("latency", "<u8", 2)])
    histogram = pa.list_(pa.uint64(), 2)
    fields = (
        Field("a", 0, Kind.NUMBER, rows.dtype["a"], pa.int64()),
        Field("latency", 8, Kind.HISTOGRAM, rows.dtype["latency"], histogram),
    )
    made = to_arrow(plain(rows, pa.schema([("a", pa.int64()), ("latency", histogram)]), fields))
    rows[:] = (0, [0, 0])
    assert made.to_pylist() == [{"a": 1, "latency": [2, 3]}] * count


def test_histograms_are_lists_of_one_length() -> None:
    """A histogram's buckets stay together, in order."""
    rows = np.array([([1, 2, 3],), ([4, 5, 6],)], [("latency", "<u8", 3)])
    arrow = pa.list_(pa.uint64(), 3)
    field = Field("latency", 0, Kind.HISTOGRAM, rows.dtype["latency"], arrow)
    made = to_arrow(plain(rows, pa.schema([("latency", arrow)]), (field,)))
    assert made["latency"].to_pylist() == [[1, 2, 3], [4, 5, 6]]


def test_names_are_joined_by_key() -> None:
    """A summary's text comes from another stream, by key. A key without a text gives null."""
    names = batch(Kind.TEXT, pa.string(), [b"/one", b"/two"])
    keyed = np.array([(5, 1), (5, 2)], [("device", "<u4"), ("inode", "<u8")])
    described = replace(names.stream, columns={"it": Column("its name")})
    known = RawBatch(described, names.layout, names.schema, keyed, names.native)
    rows = np.array([(5, 2), (6, 2), (5, 1)], keyed.dtype)
    fields = tuple(
        Field(name, 0, Kind.NUMBER, rows.dtype[name], pa.from_numpy_dtype(rows.dtype[name]))
        for name in ("device", "inode")
    )
    joined = Names("thing", ("device", "inode"), "it", Column("its name"))
    raw = plain(rows, pa.schema([("inode", pa.uint64()), ("it", pa.string())]), fields, names=joined)
    assert to_arrow(raw)["it"].to_pylist() == [None, None, None]
    with_names = RawBatch(raw.stream, raw.layout, raw.schema, rows, names=(known,))
    assert to_arrow(with_names)["it"].to_pylist() == ["/two", None, "/one"]


def test_a_stream_may_decode_its_tails() -> None:
    """`decode` gets all tails, their starts and the names of the wanted columns."""
    tails = [b"abc", b"", b"de"]
    raw = batch(Kind.TEXT, pa.string(), tails)
    asked = []

    def decode(_: Any, given: Tails, wanted: Collection[str]) -> dict[str, pa.Array]:
        asked.append(set(wanted))
        ends = [int(end) for end in given.starts]
        cut = [given.data[begin:end].tobytes().decode() for begin, end in itertools.pairwise(ends)]
        return {"tail": pa.array(cut, pa.string())}

    made = Derived(Column("the tail"), pa.string())
    stream = replace(raw.stream, made=Made(decoded={"tail": made}, decode=decode))
    raw = replace(raw, stream=stream, schema=raw.schema.append(pa.field("tail", pa.string())))
    assert to_arrow(raw)["tail"].to_pylist() == ["abc", "", "de"]
    assert to_arrow(raw, ("it",)).schema.names == ["it"]
    assert asked == [{"it", "tail"}]
