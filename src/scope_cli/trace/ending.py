"""When a trace is over."""

import math
import os
import select
import signal
import time

from scope_cli.trace.recording import Recording
from scope_cli.trace.tracing import Tracing

_LOOK_S = 0.1  # a recording that fails does not wake


class Ending:
    """Ctrl-C and SIGTERM end a trace, and so does the end of what it watches, its time, or a failure.

    The first Ctrl-C is also the command's, which may take its time to end.

    Args:
        duration: seconds after `begin`; None: no limit.
    """

    def __init__(self, tracing: Tracing, recording: Recording, duration: float | None) -> None:
        self._tracing, self._recording, self._duration = tracing, recording, duration
        self._interrupts = 0
        self._asked = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._until: float | None = None
        signal.signal(signal.SIGTERM, lambda *_: os.eventfd_write(self._asked, 1))
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        self._interrupts += 1
        if not self._tracing.command or self._interrupts > 1:
            os.eventfd_write(self._asked, 1)

    def begin(self) -> None:
        """The time runs from now on."""
        self._until = None if self._duration is None else time.monotonic() + self._duration

    def wait(self) -> None:
        """Returns when the trace is over."""
        ends = select.poll()  # `select` takes no descriptor above 1023, and a trace of functions may have as many
        for fd in (self._asked, *self._tracing.pidfds):
            ends.register(fd, select.POLLIN)
        while not self._recording.error:
            left = _LOOK_S if self._until is None else self._until - time.monotonic()
            if left <= 0 or ends.poll(math.ceil(1000 * min(left, _LOOK_S))):
                return
