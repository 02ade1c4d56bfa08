"""`scope trace`: tracers and a held command run together (tracing), and their batches go to sinks.

In the order of the data: tracing - recording - sink (what takes batches): ndjson, parquet, perfetto, flames, lines and
tables, each the file or terminal of a view of scope_views. Tables: tables (their text) - display. At the end: ending
and summary.
"""

from pathlib import Path

STDOUT = Path("-")  # in place of a file
