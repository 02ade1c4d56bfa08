"""Separate debug files, which have the symbols of stripped files.

`separate` checks that a file is the debug file of another one, and finds those of this machine; `settings`, `cache`,
`download` and `debuginfod` get others from servers; `debug_files` tries these in this order.
"""
