"""Hypertables: a row of PostgreSQL for each row, in tables that TimescaleDB cuts into chunks and compresses by column.

For those who want SQL of TimescaleDB over them, such as continuous aggregates of their own. `tables` makes them, `rows`
reads from them, `chunks` compresses, measures and drops what TimescaleDB's own jobs would. The block of a row is its
batch: the catalogue of batches has each one's times. `hypertables` is all of these as a layout.
"""
