"""Functions are found by the names that people write."""

import pytest

from scope_bpf.code.function_names import (
    is_go,
    is_moved_part,
    literal_of,
    matches,
    may_throw,
    uses_its_return,
    without_parameters,
)

POOL = "_ZN18ggml_cuda_pool_vmm5allocEmPm"
TEMPLATE = "_ZN2at6native5scaleIfEEvPT_"  # void at::native::scale<float>(float*)
CONST = "_ZNK1a1bEi"  # a::b(int) const
ANONYMOUS = "_ZN4shop12_GLOBAL__N_15failsEi"
OLD_RUST = "_ZN4core3fmt5write17h0123456789abcdefE"


@pytest.mark.parametrize(
    ("pattern", "symbol"),
    [
        ("malloc", "malloc"),
        ("m?lloc", "malloc"),
        ("[lm]alloc", "malloc"),
        ("*alloc", "malloc"),
        ("ggml_cuda_pool_vmm::alloc", POOL),
        ("ggml_cuda_pool_vmm::alloc(unsigned long, unsigned long*)", POOL),
        (POOL, POOL),
        ("*pool*::alloc", POOL),
        ("at::native::scale<float>", TEMPLATE),
        ("at::native::scale<*>", TEMPLATE),
        ("void at::native::scale<float>(float*)", TEMPLATE),
        ("a::b", CONST),
        ("a::b(int) const", CONST),
        ("shop::(anonymous namespace)::fails", ANONYMOUS),
        ("core::fmt::write", OLD_RUST),
        ("operator new", "_Znwm"),
        ("operator new(unsigned long)", "_Znwm"),
        ("std::string::append", "_ZNSs6appendEPKc"),
        ("foo.constprop.0", "foo.constprop.0"),
        ("f[abi:cxx11]", "_Z1fB5cxx11v"),
        ("main::{lambda()#1}::operator()", "_ZZ4mainENKUlvE_clEv"),
        ("std::basic_ostream<char, std::char_traits<char> >::basic_ostream()", "_ZNSoC1Ev"),
    ],
)
def test_a_name_is_found(pattern: str, symbol: str) -> None:
    """The pattern stands for the symbol; and the text by which candidates are searched is in the symbol."""
    assert matches(pattern, symbol)
    assert literal_of(pattern) in symbol


@pytest.mark.parametrize(
    ("pattern", "symbol"),
    [
        ("alloc", POOL),
        ("ggml_cuda_pool_vmm::alloc(int)", POOL),
        ("malloc", "mallocx"),
        ("MALLOC", "malloc"),
        ("fails", ANONYMOUS),
        ("foo", "foo.constprop.0"),
        ("scale<float>", TEMPLATE),
        ("a::b", "_ZN1a1bEi.constprop.0"),
        ("a::b", "_ZThn8_N1a1bEv"),
        ("Foo", "_ZN1AcvN3FooEEv"),
    ],
)
def test_other_names_are_not(pattern: str, symbol: str) -> None:
    assert not matches(pattern, symbol)


def test_names_without_parameters() -> None:
    names = {"a::b(int) const": "a::b", "f": "f", "(anonymous namespace)::g(void (*)(int))": "(anonymous namespace)::g"}
    assert {name: without_parameters(name) for name in names} == names


def test_kinds_of_functions() -> None:
    """Whose exceptions pass; which need their return address; which are only a part of a function."""
    throwing = [symbol for symbol in (POOL, "_RNvC3foo3bar", "_D4main3fooFZv", "malloc", "f") if may_throw(symbol)]
    assert throwing == [POOL, "_RNvC3foo3bar", "_D4main3fooFZv"]
    using = ("_start", "_rt0_amd64_linux", "setjmp", "__sigsetjmp", "swapcontext", "dlopen", "dlsym", "vfork")
    assert all(map(uses_its_return, (*using, "__cxa_throw", "_Unwind_RaiseException", "rust_begin_unwind")))
    assert not any(map(uses_its_return, ("start", "setjmp_count", "dlclose", "main", "fork_all", POOL)))
    assert is_moved_part("main.cold")
    assert not is_moved_part("cold")


def test_functions_of_go() -> None:
    """In a file with Go code, Go's functions have dots, and C's do not, except for a compiler's clones."""
    assert all(map(is_go, ("main.run", "net/http.(*Server).Serve", "_cgoexp_ab_Callback", "crosscall2", "_rt0_amd64")))
    assert not any(map(is_go, ("f.part.0", "f", POOL)))
