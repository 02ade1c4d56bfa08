"""Which lines are logged if there may be one for each message of a hostile peer, which must not fill the disk."""

import logging
import time
from collections import Counter

_EACH_S = 10.0  # between two lines of one kind


class Rate:
    """Lets through the first line of each kind, and then one in 10 s. The kinds are few, since all are kept."""

    def __init__(self) -> None:
        self._since: Counter[str] = Counter()
        self._told: dict[str, float] = {}  # when a line of the kind was logged last

    def due(self, kind: str) -> int:
        """How many lines of this kind there were since the last one that was logged; 0: this one is not to be."""
        now = time.monotonic()
        self._since[kind] += 1
        if now - self._told.get(kind, -_EACH_S) < _EACH_S:
            return 0
        self._told[kind] = now
        return self._since.pop(kind)


class _Bounded(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._rate = Rate()

    def filter(self, record: logging.LogRecord) -> bool:
        since_last = self._rate.due(record.getMessage())
        vars(record)["since_last"] = since_last  # as `extra` does it
        return bool(since_last)


_BOUNDED = _Bounded()


def bound_log_of_grpc() -> None:
    """Has gRPC log at a bounded rate; by itself, it logs a traceback for each message that is none."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_BOUNDED)
