"""What the server did not take as it came, counted since its start."""

import threading
from collections import Counter
from collections.abc import Mapping


class Counts:
    """Counters by code. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()
        self._deferred: Counter[str] = Counter()
        self._redated = 0

    @property
    def refused(self) -> Mapping[str, int]:
        """Records that were refused, by code, such as `corrupt`, or `unidentified`, which no books can name."""
        with self._lock:
            return dict(self._refused)

    @property
    def deferred(self) -> Mapping[str, int]:
        """Answers that a record is to be sent later, by code."""
        with self._lock:
            return dict(self._deferred)

    @property
    def redated(self) -> int:
        """Batches that were dated by the server's clock, the machine's being implausible."""
        with self._lock:
            return self._redated

    def refuse(self, code: str) -> None:
        """Counts a record that was refused."""
        with self._lock:
            self._refused[code] += 1

    def defer(self, code: str) -> None:
        """Counts a record that is to be sent later."""
        with self._lock:
            self._deferred[code] += 1

    def redate(self) -> None:
        """Counts a batch that was dated by the server's clock."""
        with self._lock:
            self._redated += 1
