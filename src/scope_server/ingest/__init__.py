"""The way from an agent's stream to stored rows: upload (gRPC), backlog (turns), writers (each lane: admit, decode,
write)."""
