"""The newest row of each state that a stream tells: what is held now is answered without reading all that was told.

In the order of data: `layout` says what is kept of a stream, `tables` makes its tables, `put` writes states in the
transaction of their rows, `reader` answers, `forget` takes them away with the days of their rows, and `references` says
which texts and processes they need.

A state lives as long as the row that tells it. One that is over (`Latest.held`) is kept, too, and counts for nothing:
so a row that comes late finds a newer one, and does not bring back what is gone.
"""
