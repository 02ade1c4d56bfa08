"""Rows as what people look at: Arrow in, bytes or columns out. No terminal, no database, no clock of this machine.

Both sides of the catalogue's data use it: the command line for local traces, the server for answers. A view knows a
stream only as `scope_catalogue` describes it. matching (rows that meet a condition), choice (rows that the filter of a
trace or a task takes), groups (rows by equal values); then one room for each view: tables/, flames/, perfetto/, chrome
(machines puts rows of several on one clock), and files (ndjson, csv, Arrow, parquet). What every text needs: printable,
quantities, times.
"""
