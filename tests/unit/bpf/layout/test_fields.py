"""Converting structs to columns."""

import pytest

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Array, Enum, Integer, Member, Struct
from scope_bpf.layout.fields import Kind, enumerators, layout_of

U32, S64 = Integer("__u32", 4, signed=False), Integer("__s64", 8, signed=True)
CHAR = Integer("char", 1, signed=True)
HEADER = Struct("scope_header", 16, (Member("pid", 0, U32), Member("stream", 4, U32), Member("ret", 8, S64)))


def test_a_struct_stands_for_its_members() -> None:
    """Members of structs in a struct become columns with their own names; padding and the stream's number do not."""
    part = Struct("part", 8, (Member("more", 0, U32), Member("pad", 4, U32)))
    event = Struct("thing_event", 24, (Member("header", 0, HEADER), Member("part", 16, part)))
    layout = layout_of(event)
    assert [(field.name, field.offset) for field in layout.fields] == [("pid", 0), ("ret", 8), ("more", 16)]
    assert (layout.size, layout.dtype.itemsize) == (24, 24)
    assert [str(field.arrow) for field in layout.fields] == ["uint32", "int64", "uint32"]


def test_structs_lie_one_behind_the_other() -> None:
    """A summary's row is its key, then its value."""
    key, value = Struct("a_key", 8, (Member("k", 0, U32),)), Struct("a_value", 8, (Member("v", 0, S64),))
    assert [(field.name, field.offset) for field in layout_of(key, value).fields] == [("k", 0), ("v", 8)]


@pytest.mark.parametrize(
    ("type_", "kind", "arrow"),
    [
        (Array(CHAR, 16), Kind.NAME, "dictionary<values=string, indices=int32, ordered=0>"),
        (Struct("scope_text", 8, ()), Kind.TEXT, "string"),
        (Struct("scope_text_list", 8, ()), Kind.TEXT_LIST, "list<item: string>"),
        (Struct("scope_path", 8, ()), Kind.PATH, "string"),
        (
            Enum("tcp_state", 4, False, (("TCP_SYN_SENT", 2),)),
            Kind.ENUM,
            "dictionary<values=string, indices=int32, ordered=0>",
        ),
        (Struct("scope_address", 20, ()), Kind.ADDRESS, "dictionary<values=string, indices=int32, ordered=0>"),
        (Struct("scope_histogram", 320, ()), Kind.HISTOGRAM, "fixed_size_list<item: uint64>[40]"),
    ],
    ids=lambda value: value.name if isinstance(value, Struct | Enum | Kind) else "",
)
def test_types_become_columns(type_: Array | Enum | Struct, kind: Kind, arrow: str) -> None:
    """Each type of event.h becomes its kind of column."""
    (field,) = layout_of(Struct("an_event", 400, (Member("it", 0, type_),))).fields
    assert (field.kind, str(field.arrow)) == (kind, arrow)


@pytest.mark.parametrize("type_", [None, Array(U32, 4)], ids=["pointer", "array"])
def test_a_type_that_is_no_column_is_refused(type_: Array | None) -> None:
    """The error for an unsupported type names the struct and the member."""
    with pytest.raises(LayoutMismatch, match="struct an_event: member 'it' has a type that cannot become a column"):
        layout_of(Struct("an_event", 16, (Member("it", 0, type_),)))


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (["TCP_ESTABLISHED", "TCP_SYN_SENT"], ["established", "syn_sent"]),
        (["COPY_TO", "COPY_TO_DEVICE"], ["to", "to_device"]),
        (["READ", "WRITE"], ["read", "write"]),
        (["STATE_IDLE"], ["idle"]),
        (["RED", "REDDISH"], ["red", "reddish"]),
    ],
    ids=lambda names: names[0],
)
def test_enumerators_lose_the_words_they_all_begin_with(names: list[str], called: list[str]) -> None:
    """Words that all names begin with are removed, but no name becomes empty. Names are in lower case."""
    type_ = Enum("an_enum", 4, False, tuple((name, value) for value, name in enumerate(names)))
    assert [enumerators(type_)[value] for value in range(len(names))] == called


def test_the_first_name_of_a_value_counts() -> None:
    """If two enumerators have the same value, the first one's name is used."""
    assert enumerators(Enum("an_enum", 4, False, (("A_ONE", 1), ("A_LAST", 1)))) == {1: "one"}
