"""The steps from the kernel to the server, in order: record (one thread per run), describe, batch, spool, upload."""
