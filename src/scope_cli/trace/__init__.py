"""`scope trace`: tracers and a held command run together (tracing), and their batches go to sinks.

In the order of the data: tracing - recording - choice (rows that the user wants) - sink (what takes batches): ndjson,
parquet, lines, tables and perfetto/. Tables: groups - durations - aggregate - tables - display. At the end: ending and
summary.
"""

from pathlib import Path

STDOUT = Path("-")  # in place of a file
