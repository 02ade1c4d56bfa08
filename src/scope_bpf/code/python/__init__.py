"""CPython interpreters and their frames: versions (where a version keeps what), members (what a file says of that),
interpreter (which one a file contains), processes (which processes run one), codes (names, files and lines of code
objects), lines (tables of lines), merging (Python frames in native stacks).

The frames are walked in the kernel, see bpf/include/python*.bpf.h.
"""
