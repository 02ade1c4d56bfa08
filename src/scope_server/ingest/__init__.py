"""The way from an agent's stream to stored rows: upload (gRPC; descriptions of streams), backlog (turns), writers (each
lane: learn, admit, decode, write)."""
