"""The definition of a probe (`probe`): its streams (`stream`), options (`options`) and targets (`target`).

Importing needs neither privileges nor the extension.
"""
