"""Finds functions by patterns of names as people write them: mangled or demangled, with parameters or without."""

import re
from fnmatch import fnmatchcase

from scope_bpf.binding.demangle import demangle

_WORD = re.compile(r"[A-Za-z0-9_]+")
_WILDCARD = re.compile(r"\[[^\]]*\]|[*?]")
_IN_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
_CLOSERS = {")": "(", ">": "<"}
# Itanium C++ ABI, 5.1.8: the compiler abbreviates these in mangled names. The last two are part of operators.
_ABBREVIATED = {
    *("std", "allocator", "basic_string", "string", "istream", "ostream", "iostream"),
    *("basic_istream", "basic_ostream", "basic_iostream", "new", "delete"),
}
_INVENTED = re.compile(r"[{'@]|\[abi| (for|to|guard|wrapper|clone) ")  # the demangler's own words, as in {lambda()#1}
_HASH = re.compile(r"::h[0-9a-f]{16}$")  # the end of Rust's older mangled names
_CLONE = re.compile(r"\.(part|isra|constprop|cold|llvm|lto_priv|clone|localalias)\b")
_THUNKS = ("_ZTh", "_ZTv", "_ZTc")  # Itanium C++ ABI, 5.1.4: they jump to the function
# Functions that begin without a return address, or that read or keep theirs: another one there would harm them.
_RETURN_IS_USED = re.compile(
    r"_start|_rt0_.*|__restore_rt|_dl_runtime_.*|_dl_tlsdesc_.*|__morestack.*"  # reached without a call
    r"|(_|__|__sig|_sig)?setjmp|(__)?(get|set|swap|make)context|(__)?v?fork|(__)?clone3?"
    r"|(__)?dl(m?open|v?sym)|__cxa_.*|_Unwind_.*|__gxx_.*|_?_?rust_.*|.*begin_unwind"
)
_OF_CGO = re.compile(r"_cgo.*|x_cgo_.*|crosscall.*|_rt0_.*")


def has_wildcards(pattern: str) -> bool:
    """Whether a pattern stands for other names than itself."""
    return bool(_WILDCARD.search(pattern))


def literal_of(pattern: str) -> str:
    """A text that the mangled name of every matching function contains; empty: none is known.

    Identifiers are parts of mangled names; types and operators are not.
    """
    if _INVENTED.search(pattern):
        return ""
    name = without_parameters(pattern).partition("operator")[0]
    while (shorter := _IN_BRACKETS.sub("", name)) != name:
        name = shorter
    for component in reversed(name.split("::")):
        words: set[str] = {word for part in _WILDCARD.split(component) for word in _WORD.findall(part)} - _ABBREVIATED
        if words:
            return max(words, key=len)
    return ""


def without_parameters(name: str) -> str:
    """A demangled name without its parameters, and what follows them: `a::b` for `a::b(int) const`."""
    end = name.rfind(")")
    if end < 0:
        return name
    depth = 0
    for at in range(end, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if not depth:
            return name[:at] or name
    return name


def _without_type(name: str) -> str:
    """A demangled template without the type before it: `f<int>` for `void f<int>`."""
    if "<" not in name or "operator" in name:
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] in _CLOSERS) - (name[at] in _CLOSERS.values())
        if name[at] == " " and depth <= 0:
            return name[at + 1 :]
    return name


def plain_name(symbol: str) -> str:
    """The demangled name of a symbol without parameters and hash."""
    name: str = without_parameters(demangle(symbol))
    return _HASH.sub("", name)


def matches(pattern: str, symbol: str) -> bool:
    """Whether a function's symbol has a name for which the pattern stands.

    A compiler's clone of a function has other arguments, so only its symbol itself stands for it.
    """
    if pattern == symbol or fnmatchcase(symbol, pattern):
        return True
    if _CLONE.search(symbol) or symbol.startswith(_THUNKS):
        return False
    demangled = demangle(symbol)
    if demangled == symbol:
        return False
    plain = plain_name(symbol)
    names = (demangled, plain, _without_type(plain))
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def may_throw(symbol: str) -> bool:
    """Whether exceptions may pass the function: a C++, Rust or D function, by its mangled name."""
    return symbol.startswith(("_Z", "_R", "_D4", "_Dmain"))


def uses_its_return(symbol: str) -> bool:
    """Whether the function must find its own return address, as `setjmp` does, or has none, as `_start`."""
    return bool(_RETURN_IS_USED.fullmatch(symbol))


def is_moved_part(symbol: str) -> bool:
    """Whether the symbol is a part of a function that the compiler moved away; nobody calls it."""
    return ".cold" in symbol


def is_go(symbol: str) -> bool:
    """Whether a function of a file with Go code is Go's, such as `main.run`, and not C's, which has no dots."""
    return ("." in symbol and not _CLONE.search(symbol)) or bool(_OF_CGO.fullmatch(symbol))
