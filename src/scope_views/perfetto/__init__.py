"""Traces for Perfetto (ui.perfetto.dev): threads, streams and devices on one timeline.

messages (protobuf by the column), tracks (each described once), drawing (a batch as packets), trace (the bytes of a
whole trace).
"""
