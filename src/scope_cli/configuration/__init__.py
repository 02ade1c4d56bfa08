"""Settings of the daemons: from flags, the environment, a file and defaults to a `Settings` object.

`daemons` names the two daemons and their `Settings`, in which each setting is declared once. `kinds` reads and writes
values of each type, `keys` names a setting on the command line, in the environment and in the file, `flags` adds the
options to a command. `file` reads a TOML file, `resolve` decides which value holds, and `sample` writes the documented
file.
"""
