"""Resolves code addresses of processes to names.

`proc` and `mappings` read what a process has mapped; `libraries` finds the files that a command will map. `elf`,
`symbols` and `usdt` read these files; `kept_files` keeps them readable. `modules` finds files by the kernel's ids,
`opened` by the mappings of processes. `history` says what was mapped at which time, `debug` finds the names of stripped
files and `function_starts` where their functions begin, `frame_names` makes texts of frames and `stacks` of stacks, a
`resolver` makes columns.
"""
