"""Rollups: rows added up by the minute, written in the rows' transaction, so that charts need not read rows.

A table a stream in the schema `rollups`, partitioned by day. One of its rows holds an hour of a machine, or what one
transaction brought of it, as arrays: `minutes, comm, ..., counts, sums, failed` are the groups' columns;
`bucket_minutes, bucket_comm, ..., buckets, bucket_counts` those of their histograms, where bucket b has the values from
2**b to 2**(b+1); `per_second` counts from `first_second` of the hour on. Its `level`:

    0   fresh: as a transaction wrote it
    1   merged: all of a machine's hour, by minutes; of all machines for machine 0
    2   the same by the hour: without minutes and seconds

Writing: tally (rows added up) - packed (tables into arrays and back) - merge (fresh rows into hours, in the
background). Reading: query (what can be asked) - reader (answers). tables: the tables and, for people,
the SQL functions.
"""
