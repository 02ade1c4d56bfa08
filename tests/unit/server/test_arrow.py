"""Arrow's names of types are read back as the types; other names are refused."""

import pytest

from scope_bpf.probes import probes
from scope_server.errors import SchemaConflict
from scope_server.store.schema.arrow import arrow_type

TYPES = {field.type for probe in probes().values() for stream in probe.public_streams for field in probe.schema(stream)}


@pytest.mark.parametrize("type_", sorted(TYPES, key=str), ids=str)
def test_the_types_of_all_streams(type_: object) -> None:
    """Each type that a probe uses is found by its name."""
    assert arrow_type(str(type_)) == type_


@pytest.mark.parametrize(
    "name",
    [
        "",
        "uint65",
        "Uint64",
        "int32; DROP TABLE",
        "timestamp[us]",
        "dictionary<values=string, indices=int8, ordered=0>",
        "list<item: list<item: int32>>",
        "list<item: int32>[4]",
        "fixed_size_list<item: int32>",
        "fixed_size_list<item: int32>[0]",
        "fixed_size_list<item: int32>[99999]",
    ],
)
def test_other_types_are_refused(name: str) -> None:
    """A type without a place in PostgreSQL, or that no probe could mean, is refused."""
    with pytest.raises(SchemaConflict, match="cannot be stored"):
        arrow_type(name)
