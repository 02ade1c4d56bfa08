"""Ids of runs: UUIDv7 (RFC 9562), which sort by time."""

import secrets
import time
import uuid


def new_run_id() -> bytes:
    """16 bytes: 48 bits of milliseconds since 1970, then version, variant and 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return uuid.UUID(int=number).bytes
