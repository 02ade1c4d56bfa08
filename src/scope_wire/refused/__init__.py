"""Refused peers: `refusals` counts them by reason, `handshakes` learns from gRPC which got no connection at all, `rate`
keeps the log small.
"""
