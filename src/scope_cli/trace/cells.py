"""Columns of a batch as texts, made for all rows at once, as `quantities.aligned` makes them of single values."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import Column
from scope_cli.quantities import SCALES, Scale
from scope_views.printable import printable

_ABSENT = "-"
_UNPRINTABLE = r"[\p{C}\p{Zl}\p{Zp}]"


def cells(values: pa.Array, column: Column) -> pa.Array:
    """Each value as a text; `-` for what is absent.

    Durations and bytes have units, bits are hexadecimal numbers, errors and signals have names.
    """
    kind = values.type
    if column.unit in SCALES and pa.types.is_integer(kind):
        texts = _scaled(values, SCALES[column.unit])
    elif pa.types.is_floating(kind):
        texts = pc.round(values, 2).cast(pa.string())
    elif column.hex and pa.types.is_integer(kind):
        texts = _each(values, "{:#x}".format)
    elif column.codes and pa.types.is_integer(kind):
        texts = _each(values, column.codes.shown)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        texts = pc.binary_join(values.cast(pa.list_(pa.string())), " ")
    else:
        texts = values.cast(pa.string())
    return pc.fill_null(_printable(texts), _ABSENT)


def _each(values: pa.Array, text_of: Callable[[int], str]) -> pa.Array:
    """A text for each number, made once per distinct number."""
    encoded = values.dictionary_encode()
    texts = [None if value is None else text_of(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _printable(texts: pa.Array) -> pa.Array:
    odd = pc.match_substring_regex(texts, _UNPRINTABLE).fill_null(False)
    if not pc.any(odd).as_py():
        return texts
    escaped = [printable(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(escaped, texts.type))


def is_number(values: pa.Array, column: Column) -> bool:
    """Whether a column is aligned to the right."""
    return (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)) and not column.hex


def _scaled(values: pa.Array, scale: Scale) -> pa.Array:
    sizes = np.array(scale.sizes)
    numbers = values.fill_null(0).to_numpy().astype(np.float64)
    place = np.searchsorted(sizes[:-1] * scale.limit, np.abs(numbers), side="right")
    hundredths = np.rint(numbers * 100 / sizes[place]).astype(np.int64)
    whole = pa.array(hundredths // 100).cast(pa.string())
    decimals = pc.utf8_lpad(pa.array(hundredths % 100).cast(pa.string()), 2, "0")
    names = pa.array(scale.names).take(pa.array(place))
    texts = pc.if_else(
        pa.array(place == 0),
        pc.binary_join_element_wise(whole, names, " "),
        pc.binary_join_element_wise(pc.binary_join_element_wise(whole, decimals, "."), names, " "),
    )
    return pc.if_else(values.is_valid(), texts, None)
