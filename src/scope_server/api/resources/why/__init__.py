"""Why something took its time: `answer` says what is told; `process`, `request` and `machine` find it.

`timeline` tells when each thread of a process waited; `routes` are the paths.
"""
