"""From the kernel to the wire: record (one thread a task) - batch - queue - ship. A file a stage, in this order."""
