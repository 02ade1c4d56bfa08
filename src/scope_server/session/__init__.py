"""Sessions of agents: entrance (not all begin at once), hello (first message), sessions (connected agents), reported
(checks reports), reports (writes them to SQL), seen (when agents were heard), directory (which server holds which
session), desired, changes and reconcile (wanted tasks), service (gRPC).
"""
