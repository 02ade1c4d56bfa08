"""From the gRPC stream to committed rows: service → queue → writer threads (decode, write) → reply."""
