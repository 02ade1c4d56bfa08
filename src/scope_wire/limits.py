"""Sizes and times that both ends keep to."""

RECORD_BYTES = 1 << 20  # a serialized Record, at most: a larger message holds up gRPC's loop (a 64 MB one for 0.2 s)
MESSAGE_BYTES = RECORD_BYTES + (64 << 10)  # a gRPC message that has a record in it
WINDOW_BYTES = 8 << 20  # records that an agent sends ahead of the answers
NAME_LENGTH = 63  # of a stream, place or reason; a table's name in PostgreSQL is no longer
MOST_COUNT = (1 << 53) - 1  # of events, everywhere: JSON's readers keep no more digits

REPORT_EVERY_S = 5.0  # an agent's sign of life
SILENCE_S = 15.0  # without one: the session is over

KEEPALIVE_MS = 10_000  # a ping on a connection that is silent ...
KEEPALIVE_TIMEOUT_MS = 5_000  # ... and its answer, or the connection is gone
