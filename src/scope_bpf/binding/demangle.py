"""Demangles C++ names."""

from functools import lru_cache

from scope_bpf.binding.ffi import ffi, lib


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """`add(int*)` for `_Z3addPi`; a name that is not mangled is returned unchanged."""
    if not name.startswith("_Z"):
        return name
    found = lib.scope_demangle(name.encode(errors="surrogateescape"))
    if found == ffi.NULL:
        return name
    try:
        text: str = ffi.string(found).decode(errors="backslashreplace")
    finally:
        lib.free(found)
    return text
