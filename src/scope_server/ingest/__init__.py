"""From an agent's stream to committed rows: upload (gRPC) - backlog - writers (a lane each: admit, decode, write)."""
