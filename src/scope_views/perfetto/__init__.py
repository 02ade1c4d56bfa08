"""Traces for Perfetto (ui.perfetto.dev): threads, streams and devices on one timeline.

messages (protobuf by the column), tracks and callstacks (each described once), drawing (slices, counters and samples
of a batch), scheduling (CPUs and states of threads), trace (the bytes of a whole trace).
"""
