"""Sizes and times that agent and server agree on."""

RECORD_BYTES = 1 << 20  # of a serialized Record; a larger message blocks gRPC's loop (64 MB: for 0.2 s)
MESSAGE_BYTES = RECORD_BYTES + (64 << 10)  # of a gRPC message that contains a record
WINDOW_BYTES = 8 << 20  # of records that an agent sends before they are answered
PERSON_LENGTH = 64  # of the name of a person, in a certificate
NAME_LENGTH = 63  # of a stream, place or reason; PostgreSQL's limit for a table name
MOST_COUNT = (1 << 53) - 1  # of events; JSON readers lose digits of larger numbers

REPORT_EVERY_S = 5.0  # time between two reports of an agent that has tasks or spooled records ...
IDLE_REPORT_EVERY_S = 60.0  # ... and of one that does nothing: a report costs as much as three to five pings
LATE_S = 10.0  # the session is over if a report is later than this

# A connection on which nothing was received for this time sends a ping, and ends if the answer takes too long. The side
# that calls pings first: then the other one has received something, and need not.
CALLER_KEEPALIVE_MS = 10_000
LISTENER_KEEPALIVE_MS = 11_000
KEEPALIVE_TIMEOUT_MS = 3_500
