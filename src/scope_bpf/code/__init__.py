"""Whose code an address is.

`proc` and `mappings` say what a process has mapped, `libraries` what a command will; `elf` and `symbols` read the
files, `kept_files` keeps them readable, `modules` by what the kernel calls them, `opened` by what processes map;
`history` says what was mapped when; `stacks` makes text; a `resolver` makes columns of it.
"""
