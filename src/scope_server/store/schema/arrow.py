"""The Arrow types that can be stored, by Arrow's names of them."""

import re

import pyarrow as pa

from scope_server.errors import SchemaConflict

# Arrow type -> SQL type, and the Arrow type that is written.
NUMBERS = {
    pa.int8(): ("smallint", pa.int16()),
    pa.uint8(): ("smallint", pa.int16()),
    pa.int16(): ("smallint", pa.int16()),
    pa.uint16(): ("integer", pa.int32()),
    pa.int32(): ("integer", pa.int32()),
    pa.uint32(): ("bigint", pa.int64()),
    pa.int64(): ("bigint", pa.int64()),
    pa.uint64(): ("bigint", pa.int64()),
    pa.float32(): ("real", pa.float32()),
    pa.float64(): ("double precision", pa.float64()),
    pa.bool_(): ("boolean", pa.bool_()),
    pa.string(): ("text", pa.string()),
    pa.binary(): ("bytea", pa.binary()),
}
_SIMPLE = {str(type_): type_ for type_ in (*NUMBERS, pa.dictionary(pa.int32(), pa.string()))}
_LIST = re.compile(r"(?P<fixed>fixed_size_)?list<item: (?P<item>\w+)>(?:\[(?P<size>[1-9][0-9]{0,3})\])?")


def arrow_type(name: str) -> pa.DataType:
    """The type with this name.

    Raises:
        SchemaConflict: no such type can be stored.
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    found = _LIST.fullmatch(name)
    if found is None or found["item"] not in _SIMPLE or bool(found["fixed"]) != bool(found["size"]):
        raise SchemaConflict(f"Arrow's type {name[:60]!r} cannot be stored")
    return pa.list_(_SIMPLE[found["item"]], int(found["size"] or -1))
