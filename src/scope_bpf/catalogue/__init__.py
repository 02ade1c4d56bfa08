"""The definition of a probe (`probe`): its streams (`stream`), places (`place`) and targets (`target`).

`described` converts it to the data that is the build's catalogue (scope_catalogue). Importing needs neither privileges
nor the extension.
"""
