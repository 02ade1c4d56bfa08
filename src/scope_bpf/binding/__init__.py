"""The interface to the kernel and libbpf. Only this package imports the C extension.

`cdef` and `shim` are the extension's declarations and C code; `ffi` imports it. The other modules, in the order a probe
needs them: `object`, `map`, `link` and `uprobe` (programs and attaching), `ring` and `rows` (events), `statistics` (CPU
cost), `mapping_watch` (new mappings of code), `held_file` (files kept without descriptors), `demangle` (C++ names),
`capability` (what is effective only around the calls that need it), `features` (what older kernels lack).
`hold.c` is a separate program, for `capture.command`.
"""
