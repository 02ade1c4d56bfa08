"""A flame graph as Arrow columns."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from scope_views.flames.tree import Tree


def columns(tree: Tree, metadata: Mapping[str, str]) -> pa.RecordBatch:
    """The frames in depth-first order: `level`, `label`, `kind`, `value` (inclusive), `self`; of two sides that are
    compared also `other_value` and `other_self`.

    Args:
        metadata: of the schema, besides `title` and `unit`.
    """
    places = pa.array(tree.label.astype(np.int32))
    kinds = pa.array(tree.kinds, pa.string()).dictionary_encode()
    found = {
        "level": pa.array(np.minimum(tree.level, np.iinfo(np.uint16).max).astype(np.uint16)),
        "label": pa.DictionaryArray.from_arrays(places, pa.array(tree.labels, pa.string())),
        "kind": pa.DictionaryArray.from_arrays(kinds.indices.take(places), kinds.dictionary),
    }
    for side, prefix in enumerate(("", "other_")[: tree.sides]):
        found |= {f"{prefix}value": pa.array(tree.value[side]), f"{prefix}self": pa.array(tree.own[side])}
    batch = pa.RecordBatch.from_pydict(found)
    return batch.replace_schema_metadata({"title": tree.title, "unit": tree.unit, **metadata})


def ipc(batch: pa.RecordBatch) -> bytes:
    """The columns as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
