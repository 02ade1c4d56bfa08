"""Why something took its time, as sentences that a person would say: `process`, `request` and `machine`.

`lanes` are the threads of a process over time: when each was on a CPU, waited for one, or was blocked.
"""
