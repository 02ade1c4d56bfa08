"""Rollups: totals of rows per minute, written in the rows' transaction, so that charts need not read rows.

Each stream has a table in the schema `rollups`, partitioned by day. A row has the totals of one hour and machine, or a
part of them from one transaction, as arrays. `minutes, comm, ..., counts, sums, failed` are columns of groups.
`bucket_minutes, bucket_comm, ..., buckets, bucket_counts` are columns of their histograms; bucket b has the values from
2**b to 2**(b+1). `per_second` has counts per second, starting at `first_second` of the hour. The `level` of a row:

    0   fresh, from one transaction
    1   merged: the whole hour of a machine, per minute; machine 0 has all machines
    2   the same per hour, without minutes and seconds

Writing: `tally` adds up rows, `packed` converts totals to arrays and back, `merge` merges fresh rows into hours in the
background. Reading: `store/totals/`. `tables` creates the tables, and `functions` the SQL functions for people.
"""
