"""The frames of CPython interpreters: versions (where a version keeps what), interpreters (which processes run one),
codes (names, files and lines of code objects).

The frames are walked in the kernel, see bpf/include/python.bpf.h.
"""
