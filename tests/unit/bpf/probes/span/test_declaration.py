"""Declarations of functions: what they mean, and what is said of wrong ones."""

import pytest

from scope_bpf.catalogue.place import Pattern, Usdt
from scope_bpf.probes.span.declaration import Kept, check, parse
from scope_catalogue.errors import InvalidOption


def test_a_whole_declaration() -> None:
    """Numbers in order, the text apart; a value without a type is a u64."""
    declared = parse("libx.so: f".replace(" ", "") + " a=arg0 b=arg9:i8  c=ret:ptr d=arg1->0x10->-8:u16 t=arg2->+4:str")
    assert declared.at == Pattern("libx.so", "f")
    assert declared.values == (
        Kept("a", 0, (), "u64"),
        Kept("b", 9, (), "i8"),
        Kept("c", None, (), "ptr"),
        Kept("d", 1, (0x10, -8), "u16"),
    )
    assert declared.text == Kept("t", 2, (4,), "str")
    assert [kept.size for kept in declared.values] == [8, 1, 8, 2]


def test_a_usdt_probe() -> None:
    """Two colons name a USDT probe; its arguments have its notes' size and sign, in memory those of a type."""
    declared = parse("libx:shop:sale a=arg0 b=arg11:u8 c=arg1->8 d=arg2:f64 t=arg3:str")
    assert declared.at == Usdt("shop", "sale", "libx", (0, 1, 2, 3, 11))
    assert [(kept.argument, kept.type) for kept in declared.values] == [(0, "i64"), (11, "u8"), (1, "u64"), (2, "f64")]
    assert declared.text == Kept("t", 3, (), "str")
    assert parse("*:*:gc__*").at == Usdt("*", "gc__*", "*")


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("p:a::b(int, char*) n=arg0", "a::b(int, char*)"),
        ("p:f<int, 3>", "f<int, 3>"),
        ("p:a::b(int) const n=arg0", "a::b(int) const"),
        ("p:operator new n=arg0", "operator new"),
        ("p:operator<<(std::ostream&, int) n=arg0", "operator<<(std::ostream&, int)"),
        ("p:bool operator==(A, B) n=arg0", "bool operator==(A, B)"),
        ("p:void f<int>(int) n=ret", "void f<int>(int)"),
        ("p:std::vector<int>::at", "std::vector<int>::at"),
        ("p:_ZN1a1bEv", "_ZN1a1bEv"),
    ],
)
def test_names_may_have_blanks(declared: str, name: str) -> None:
    assert parse(declared).at == Pattern("p", name)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("", "column 1: '' is not FILE:FUNCTION"),
        ("malloc", "column 1: 'malloc' is not FILE:FUNCTION, such as libc:malloc"),
        (":f", "is not FILE:FUNCTION"),
        ("l:", "is not FILE:FUNCTION"),
        ("l:f size", "column 5: 'size' is not NAME=SOURCE, such as size=arg0:u64"),
        ("l:f 1=arg0", "column 5: '1=arg0' is not NAME=SOURCE"),
        ("l:f a=arg0:(\n)", "no type"),
        ("l:f a=arg0->010->1x", "column 18: '1x' is not an offset"),
        ("l:f a=arg0->" + "9" * 900, "is not an offset in bytes"),
        ("l:" + "f" * 1030, "at most 1024 characters, and no NUL"),
        ("l:f\0", "at most 1024 characters, and no NUL"),
        ("l:f a=arg10", "column 7: 'arg10' is neither ret nor one of arg0 to arg9"),
        ("l:p:n a=arg12", "column 9: 'arg12' is not one of arg0 to arg11"),
        ("l:p:n a=ret", "column 9: 'ret' is not one of arg0 to arg11: a USDT probe has no result"),
        ("l:f a=rax", "column 7: 'rax' is neither ret nor one of arg0 to arg9"),
        ("l:f a=arg0 b=arg1:int", "column 19: no type 'int'"),
        ("l:f a=arg0:u46", r"column 12: no type 'u46' \(did you mean 'u64'"),
        ("l:f a=arg0->x:u8", "column 13: 'x' is not an offset in bytes, such as \\+0x50"),
        ("l:f a=arg0->0->0->0->0->0", "column 11: 4 pointers can be followed, not 5"),
        ("l:f a=arg0->99999999999", "is not an offset in bytes"),
        ("l:f a=arg0:f64", "a f64 can be read in memory"),
        ("l:f a=arg0 a=arg1", "column 12: 'a' is there twice"),
        ("l:f a=arg0:str b=arg1:str", r"one text \(str\) can be kept of a call, not 2"),
        ("l:f a=arg0 b=arg0 c=arg0 d=arg0 e=arg0 f=arg0 g=arg0", "6 numbers can be kept of a call, not 7"),
    ],
)
def test_what_is_wrong_is_named_with_its_column(declared: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        parse(declared)


def test_functions_are_declared_once() -> None:
    """The same functions cannot be declared twice: a call is one row."""
    check(("l:f a=arg0", "l:g a=arg0"))
    with pytest.raises(InvalidOption, match="256 declarations can be given, not 257; use patterns"):
        check(tuple(f"l:f{number}" for number in range(257)))
    with pytest.raises(InvalidOption, match="'l:f' is declared twice; put all its arguments into one declaration"):
        check(("l:f a=arg0", "l:f b=arg1"))
