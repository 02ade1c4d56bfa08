"""The names of what is kept in Redis.

All begin with one hash tag, so that a Cluster keeps them together: scripts and reads are of several keys at once. A
Cluster makes them outlive a node; it does not spread them.
"""

_ALL = "{scope}:"

SIGNALS = f"{_ALL}signals"
SERVERS = f"{_ALL}servers"
BYTES = f"{_ALL}bytes"  # of the entries of each partition
WRITERS = f"{_ALL}writers"  # when each last renewed its lease
OWNERS = f"{_ALL}owners"  # the writer of each partition


def sessions(server: str) -> str:
    """The ids of the machines whose sessions a server holds, and an empty one; expires with the server."""
    return f"{_ALL}sessions:{server}"


def limit(digest: str) -> str:
    """A token bucket."""
    return f"{_ALL}limit:{digest}"


def records(partition: int) -> str:
    """The records of a partition's runs that are not stored yet: a stream."""
    return f"{_ALL}records:{partition}"


def answers(receiver: str) -> str:
    """The outcomes of a receiver's records: a stream."""
    return f"{_ALL}answers:{receiver}"
