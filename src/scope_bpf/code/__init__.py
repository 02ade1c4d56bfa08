"""Resolves code addresses of processes to names.

`proc` and `mappings` read what a process has mapped; `libraries` finds the files that a command will map. `elf`,
`symbols` and `usdt` read these files; `kept_files` keeps them readable. `modules` finds files by the kernel's ids,
`opened` by the mappings of processes; `vdso` is the kernel's own code in each of them. `history` says what was mapped
at which time, `debug` finds the names of stripped files and `function_starts` where their functions begin.
`frame_names` makes texts of frames and `stacks` of stacks, `unwinding` tells the kernel how to walk them; a
`resolver` makes columns.
"""
