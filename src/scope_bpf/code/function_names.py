"""Finds functions by patterns of names as people write them: mangled or demangled, with parameters or without."""

import re
from fnmatch import fnmatchcase

from scope_bpf.binding.demangle import demangle

_WORD = re.compile(r"[A-Za-z0-9_]+")
_WILDCARD = re.compile(r"\[[^\]]*\]|[*?]")
_IN_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
_CLOSERS = {")": "(", ">": "<"}
# Itanium C++ ABI, 5.1.8: the compiler abbreviates these in mangled names.
_ABBREVIATED = {"std", "allocator", "basic_string", "string", "istream", "ostream", "iostream"}
_HASH = re.compile(r"::h[0-9a-f]{16}$")  # the end of Rust's older mangled names
_CLONE = re.compile(r"\.(part|isra|constprop|cold|llvm|lto_priv|clone|localalias)\b")


def has_wildcards(pattern: str) -> bool:
    """Whether a pattern stands for other names than itself."""
    return bool(_WILDCARD.search(pattern))


def literal_of(pattern: str) -> str:
    """A text that the mangled name of every matching function contains; empty: none is known.

    Identifiers are parts of mangled names; types and operators are not.
    """
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
    """A demangled name without the type before it, which templates have: `f<int>` for `void f<int>`."""
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
    """Whether a function's symbol has a name for which the pattern stands."""
    if fnmatchcase(symbol, pattern):
        return True
    demangled = demangle(symbol)
    if demangled == symbol:
        return False
    plain = plain_name(symbol)
    return any(fnmatchcase(name, pattern) for name in (demangled, plain, _without_type(plain)))


def may_throw(symbol: str) -> bool:
    """Whether exceptions may pass the function: a C++ or Rust function, by its mangled name."""
    return symbol.startswith(("_Z", "_R"))


def is_moved_part(symbol: str) -> bool:
    """Whether the symbol is a part of a function that the compiler moved away; nobody calls it."""
    return ".cold" in symbol


def is_go(symbol: str) -> bool:
    """Whether it is a function of Go: `main.run`, `net/http.(*Server).Serve`. In C, only compiled clones have dots."""
    return "." in symbol and not symbol.startswith(("_", ".")) and not _CLONE.search(symbol)
