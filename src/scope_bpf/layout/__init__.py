"""Layouts of C structs, read from a compiled object (`btf`): numpy records (`records`) and columns (`fields`)."""
