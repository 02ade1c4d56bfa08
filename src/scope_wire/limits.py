"""Sizes and times that agent and server agree on."""

RECORD_BYTES = 1 << 20  # of a serialized Record; a larger message blocks gRPC's loop (64 MB: for 0.2 s)
MESSAGE_BYTES = RECORD_BYTES + (64 << 10)  # of a gRPC message that contains a record
WINDOW_BYTES = 8 << 20  # of records that an agent sends before they are answered
PERSON_LENGTH = 64  # of the name of a person, in a certificate
NAME_LENGTH = 63  # of a stream, place or reason; PostgreSQL's limit for a table name
MOST_COUNT = (1 << 53) - 1  # of events; JSON readers lose digits of larger numbers

REPORT_EVERY_S = 5.0  # time between two reports of an agent
SILENCE_S = 15.0  # after this time without a report, the session is over

KEEPALIVE_MS = 10_000  # a silent connection sends a ping after this time ...
KEEPALIVE_TIMEOUT_MS = 5_000  # ... and ends if the answer takes longer than this
