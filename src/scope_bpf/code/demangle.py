"""C++ names as people write them, by the C++ runtime's own demangler, which what this package needs has loaded."""

from functools import lru_cache

from cffi import FFI

_ffi = FFI()
_ffi.cdef(
    """
    char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);
    void free(void *memory);
    """
)
_cxx, _c = _ffi.dlopen("libstdc++.so.6"), _ffi.dlopen(None)


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """`add(int*)` for `_Z3addPi`; a name that is not mangled stays as it is."""
    if not name.startswith("_Z"):
        return name
    status = _ffi.new("int *")
    found = _cxx.__cxa_demangle(name.encode(errors="surrogateescape"), _ffi.NULL, _ffi.NULL, status)
    if found == _ffi.NULL:
        return name
    text: str = _ffi.string(found).decode(errors="backslashreplace")
    _c.free(found)
    return text
