"""Columns of the local bus: what is unpacked equals what was packed, for every type that a stream has."""

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from scope_bpf.probes import probes
from scope_wire.bus.columns import packed, type_name, unpacked

TEXTS = ["read", None, "write", "read", ""]
COLUMNS = {
    "numbers": pa.array([1, 2**64 - 1, 0, 7, 7], pa.uint64()),
    "absent numbers": pa.array([None, -5, 0, None, 7], pa.int32()),
    "fractions": pa.array([0.5, None, -1.25, 0.0, 1e300]),
    "truths": pa.array([True, None, False, True, True]),
    "texts": pa.array(TEXTS),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "lists of texts": pa.array([["ls", "-l"], [], None, ["ls"], [""]], pa.list_(pa.string())),
    "histograms": pa.array([[1, 2], [3, 4], [0, 0], [2**64 - 1, 1], [5, 6]], pa.list_(pa.uint64(), 2)),
    "nothing": pa.array([None] * 5, pa.string()),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 4), slice(2, 2)], ids=str)
def test_columns_come_back(name: str, part: slice) -> None:
    """Through msgpack, whole, in part, and without rows."""
    values = COLUMNS[name][part]
    through = msgpack.unpackb(msgpack.packb(packed(values)))
    assert unpacked(through, type_name(values.type)).to_pylist() == values.to_pylist()


def test_a_text_is_packed_once() -> None:
    """A part of a batch has the texts of its own rows only, each once."""
    column = packed(COLUMNS["dictionary"][2:4])
    assert column["texts"] == ["write", "read"]
    assert np.frombuffer(column["data"], "int32").tolist() == [0, 1]


def test_every_column_of_the_catalogue_has_a_type() -> None:
    """Each type is text, a list, or one that numpy knows by this name."""
    schemas = [probe.schema(stream) for probe in probes().values() for stream in probe.public_streams]
    names = {type_name(field.type) for schema in schemas for field in schema}
    assert {"text", "uint64", "float64", "list<text>", "list<uint64>"} <= names
    for name in names - {"text", "list<text>", "list<uint64>"}:
        assert np.dtype(name).name == name
