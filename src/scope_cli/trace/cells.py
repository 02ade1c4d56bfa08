"""Columns of a batch as texts, made for all rows at once, as `quantities.aligned` makes them of single values."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue.stream import Column
from scope_cli.printable import printable

_ABSENT = "-"
_UNPRINTABLE = r"[\p{C}\p{Zl}\p{Zp}]"
_NS = (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s ", 10**9))
_BYTES = (("B  ", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40))
_SCALES = {"ns": _NS, "bytes": _BYTES}


def cells(values: pa.Array, column: Column) -> pa.Array:
    """Each value as a text: durations and bytes with units, bits as hexadecimal numbers, `-` for what is absent."""
    kind = values.type
    if column.unit in _SCALES and pa.types.is_integer(kind):
        texts = _scaled(values, _SCALES[column.unit])
    elif column.hex and pa.types.is_integer(kind):
        encoded = values.dictionary_encode()
        digits = [None if value is None else f"{value:#x}" for value in encoded.dictionary.to_pylist()]
        texts = pa.array(digits, pa.string()).take(encoded.indices)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        texts = pc.binary_join(values.cast(pa.list_(pa.string())), " ")
    else:
        texts = values.cast(pa.string())
    return pc.fill_null(_printable(texts), _ABSENT)


def _printable(texts: pa.Array) -> pa.Array:
    odd = pc.match_substring_regex(texts, _UNPRINTABLE).fill_null(False)
    if not pc.any(odd).as_py():
        return texts
    escaped = [printable(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(escaped, texts.type))


def is_number(values: pa.Array, column: Column) -> bool:
    """Whether a column is aligned to the right."""
    return (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)) and not column.hex


def _scaled(values: pa.Array, units: tuple[tuple[str, int], ...]) -> pa.Array:
    sizes = np.array([size for _, size in units])
    numbers = values.fill_null(0).to_numpy().astype(np.float64)
    # The next unit begins where two decimals of this one would be rounded up to it.
    place = np.clip(np.searchsorted(sizes * 0.999995, np.abs(numbers), side="right") - 1, 0, len(units) - 1)
    hundredths = np.rint(numbers * 100 / sizes[place]).astype(np.int64)
    whole = pa.array(hundredths // 100).cast(pa.string())
    decimals = pc.utf8_lpad(pa.array(hundredths % 100).cast(pa.string()), 2, "0")
    names = pa.array([name for name, _ in units]).take(pa.array(place))
    texts = pc.if_else(
        pa.array(place == 0),
        pc.binary_join_element_wise(whole, names, " "),
        pc.binary_join_element_wise(pc.binary_join_element_wise(whole, decimals, "."), names, " "),
    )
    return pc.if_else(values.is_valid(), texts, None)
