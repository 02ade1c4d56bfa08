"""Where `scope up` tells what it does."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from rich.console import Console

from scope_cli.terminal import plain

_log = logging.getLogger(__name__)


class Voice:
    """Tells in lines or, on a terminal, in a status line first and in the log while a view is shown.

    An output that goes away is no error: what runs goes on without it.
    """

    def __init__(self) -> None:
        self.console = Console()
        self._tell: Callable[[str], object] = self._print

    def say(self, text: str) -> None:
        """Tells something, from any thread."""
        with contextlib.suppress(OSError):
            self._tell(text)

    @contextlib.contextmanager
    def in_a_status_line(self) -> Iterator[None]:
        """For the block, only what was told last is shown."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status("starting") as status, self._telling(lambda text: status.update(plain(text))):
            yield

    @contextlib.contextmanager
    def in_the_log(self) -> Iterator[None]:
        """For the block, nothing is shown."""
        with self._telling(_log.warning):
            yield

    @contextlib.contextmanager
    def _telling(self, tell: Callable[[str], object]) -> Iterator[None]:
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def _print(self, text: str) -> None:
        self.console.print(plain(text), soft_wrap=True)
