"""Dimensions: tables of values that are long or repeat. Rows refer to their entries by key.

`dimension` is the contract, `declared` has all of them; a new one is a declaration there and a migration with its
table. Everything else follows from the declaration: writers find or make entries and give rows their keys
(`store/writing/dimensions.py`), queries show values in place of keys, the sweep deletes entries that nothing refers to
any more (`store/retention/sweep.py`).
"""
