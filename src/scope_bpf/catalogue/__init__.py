"""What a probe is: its streams (`stream`), options (`options`), whom it may watch (`target`), all of it (`probe`).

Filters on rows are read by `where` (`literal` reads their numbers) and kept as a `condition`. `nearest` suggests names.
Importable without privileges and without the extension.
"""
