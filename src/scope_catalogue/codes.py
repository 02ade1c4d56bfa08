"""Numbers that have names: errors and signals. Rows keep the numbers; tables, lines and filters take the names."""

import errno
import signal
from collections.abc import Mapping
from enum import Enum

MOST_ERRNO = 4095  # MAX_ERRNO, include/linux/err.h

# What a call returns that a signal has interrupted, include/linux/errno.h. User space never sees these.
RESTARTS = {
    512: ("ERESTARTSYS", "To be restarted if SA_RESTART is set"),
    513: ("ERESTARTNOINTR", "To be restarted"),
    514: ("ERESTARTNOHAND", "To be restarted if no handler"),
    516: ("ERESTART_RESTARTBLOCK", "Interrupted by signal"),
}
ERRORS = {
    **errno.errorcode,
    errno.EAGAIN: "EAGAIN",
    errno.EDEADLK: "EDEADLK",
    errno.EOPNOTSUPP: "EOPNOTSUPP",
    524: "ENOTSUPP",  # include/linux/errno.h
    **{number: name for number, (name, _) in RESTARTS.items()},
}
_FAILURES = {-number: f"-{name}" for number, name in ERRORS.items()}
_OTHER_FAILURES = {"-EWOULDBLOCK": -errno.EWOULDBLOCK, "-EDEADLOCK": -errno.EDEADLOCK}
_NO_OTHERS: Mapping[str, int] = {}

_SIGRTMIN = 32  # include/uapi/asm-generic/signal.h; the C library's is higher
SIGNALS = {
    **{int(number): number.name for number in signal.Signals if int(number) < _SIGRTMIN},
    _SIGRTMIN: "SIGRTMIN",
    **{number: f"SIGRT_{number - _SIGRTMIN}" for number in range(_SIGRTMIN + 1, 65)},
}


class Codes(Enum):
    """The kinds of numbers in a column that have names.

    Attributes:
        example: one of the names.
        names: number -> name.
        numbers: name -> number; several names may have the same number.
    """

    ERROR = ("-ENOENT", _FAILURES, _OTHER_FAILURES)
    SIGNAL = ("SIGKILL", SIGNALS, _NO_OTHERS)

    def __init__(self, example: str, names: Mapping[int, str], others: Mapping[str, int]) -> None:
        self.example = example
        self.names = names
        self.numbers = {**{name: number for number, name in names.items()}, **others}

    def shown(self, number: int) -> str:
        """The number and, if it has one, its name: `-2 ENOENT`, `9 SIGKILL`."""
        name = self.names.get(number)
        return f"{number} {name.removeprefix('-')}" if name else str(number)
