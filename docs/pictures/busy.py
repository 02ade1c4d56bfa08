"""A program to draw: for some seconds it makes records, compresses them, and sums them up."""

import hashlib
import json
import time
import zlib

SECONDS = 20


def records(count: int) -> list[dict[str, object]]:
    """Makes records."""
    return [
        {"id": number, "name": hashlib.sha256(b"%d" % number).hexdigest(), "of": [number] * 5}
        for number in range(count)
    ]


def packed(rows: list[dict[str, object]]) -> bytes:
    """Compresses records."""
    return zlib.compress(json.dumps(rows).encode(), 6)


def total(data: bytes) -> int:
    """Sums compressed records up."""
    return sum(sum(row["of"]) for row in json.loads(zlib.decompress(data)))


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    total(packed(records(2000)))
