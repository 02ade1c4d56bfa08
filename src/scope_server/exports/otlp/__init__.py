"""OpenTelemetry's protocol: messages (what is sent), address (where to), target (over gRPC or HTTP)."""
