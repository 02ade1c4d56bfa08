"""The newest row of each state of a stream, so that current states can be queried without reading all rows.

`layout` defines the tables, `tables` creates them, `put` writes states in the transaction of their rows, `reader`
answers queries, `forget` deletes states with the days of their rows, and `references` lists the texts and processes
that states need.

A state is kept as long as its row. An ended state (`Latest.held`) is kept too, but not counted: so a late row finds the
newer one, and does not restore an ended state.
"""
