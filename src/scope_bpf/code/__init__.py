"""Whose code an address is.

`proc` and `mappings` say what a process has mapped, `libraries` what a command will; `elf` and `symbols` read the
files, `modules` keeps them by what the kernel calls them; `demangle` and `stacks` make text;
a `resolver` makes columns of it.
"""
