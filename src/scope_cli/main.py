"""`scope`: where Python enters. Nothing else is imported here, so that Ctrl-C is heard from the first moment on."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

_DAEMONS = ("agentd", "server")
# Objects made before their collector looks at the youngest; Python's own 700 costs a tenth of a server's start, since
# what is imported stays.
_YOUNG = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    try:
        from scope_cli.command_line import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130


def enter() -> NoReturn:
    """Runs the command line as this process, and ends it.

    Nothing is left to be closed then; Python would take 60 ms to free what numpy and Arrow have imported.
    """
    if sys.argv[1:2] and sys.argv[1] in _DAEMONS:  # until it runs, a daemon has nothing to end in order
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    gc.set_threshold(_YOUNG)
    status = main()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):  # of a failed command, whose status says so
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    enter()
