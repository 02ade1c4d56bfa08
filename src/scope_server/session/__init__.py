"""The agents' streams: hello - sessions (who is connected) - reported (what they say) - reports (into SQL) - wishes
(what is wanted of them) - forgotten (runs that nobody has any more) - service (gRPC).
"""
