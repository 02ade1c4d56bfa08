"""The definition of a probe (`probe`): its streams (`stream`), options (`options`) and targets (`target`).

`where` reads filters on rows (`literal` reads their numbers) and makes a `condition`. `nearest` suggests names.
Importing needs neither privileges nor the extension.
"""
