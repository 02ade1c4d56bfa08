"""Sessions of agents: hello (first message), sessions (connected agents), reported (checks reports), reports (writes
them to SQL), desired and reconcile (wanted tasks), service (gRPC).
"""
