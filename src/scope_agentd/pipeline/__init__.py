"""From the kernel to the wire: record (one thread a run) - describe - batch - spool - upload. In this order."""
