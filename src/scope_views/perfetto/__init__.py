"""Traces for Perfetto (ui.perfetto.dev): threads, streams and devices on one timeline.

messages (protobuf by the column), tracks (each described once), drawing (slices and counters of a batch), scheduling
(CPUs and states of threads), trace (the bytes of a whole trace).
"""
