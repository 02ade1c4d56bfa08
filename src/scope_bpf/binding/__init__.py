"""The kernel and libbpf, and the only imports of the extension.

`cdef` and `shim` are the extension's declarations and C; `ffi` imports it. Then, in the order a probe needs them:
`object`, `map`, `link` and `uprobe` (programs and what they are attached to), `ring` and `rows` (what they emit),
`statistics` (what they cost), `mapping_watch` (who maps code), `held_file` (files without descriptors); `demangle`
reads C++ names. `hold.c` is a program of its own, for `capture.command`.
"""
