"""Describes the cffi extension `scope_bpf.binding._native` to setuptools (``cffi_modules`` in setup.py).

API mode with the limited API: one ``abi3`` file works for every Python from 3.11 on.
"""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

ffi = FFI()
for declarations in sorted((HERE / "cdef").glob("*.h")):
    ffi.cdef(declarations.read_text())

ffi.set_source(
    "scope_bpf.binding._native",
    """
    #include <bpf/bpf.h>
    #include <bpf/libbpf.h>
    #include <unistd.h>
    #include "shim.h"
    """,
    sources=[str(path.relative_to(ROOT)) for path in sorted((HERE / "shim").glob("*.c"))],
    include_dirs=["src/scope_bpf/binding/shim", "bpf/include"],
    libraries=["bpf", "elf", "z"],
    extra_compile_args=["-O2", "-pthread", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-sign-compare"],
    py_limited_api=True,
)
