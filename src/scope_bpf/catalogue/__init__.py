"""What a probe is: its streams (`stream`), options (`options`), whom it may watch (`target`), all of it (`probe`).

Importable without privileges and without the extension.
"""
