"""What is asked: `database` is the pool and `queries` the statements by name; pages of events are composed.

For these, `filters` says what rows and blocks have to meet, `window` where the first of them are, `reader` makes pages.
"""
