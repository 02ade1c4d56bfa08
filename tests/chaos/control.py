"""How long control is away: tasks are started and stopped again and again, while faults strike and are mended."""

import os
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

from scope_cli.client import Client
from scope_cli.errors import CommandError

MOST_S = 15.0 * float(os.environ.get("SLOWNESS", "4"))  # a machine that does other work, too, is slower
_REST_S = 1.0


class Control:
    """Starts and stops tasks in a thread of its own while inside, and until it succeeds after that.

    A task whose start was not answered may be left running.

    Args:
        client: asks any server.
        pid: the target of the tasks.
    """

    def __init__(self, client: Client, pid: int) -> None:
        self._client = client
        self._wish = {"probe": "process", "target": {"pid": pid}}
        self._answered = [time.monotonic()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="control")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        given_up = float("inf")
        while True:
            over = self._over.is_set()
            if self._answers():
                self._answered.append(time.monotonic())
                if over:
                    return
            elif over:
                given_up = min(given_up, time.monotonic() + MOST_S)
                if time.monotonic() > given_up:
                    self._answered.append(time.monotonic())  # not before now
                    return
            time.sleep(_REST_S)

    def _answers(self) -> bool:
        try:
            begun = self._client.post("tasks", body=self._wish)
            ended = self._client.post("tasks", begun["task_id"], "stop")
        except CommandError:
            return False
        return bool((begun["state"], ended["state"]) == ("running", "stopped"))

    def away_s(self, moments: Sequence[float]) -> float:
        """The longest time without an answer, in seconds, since the last of these moments, when something changed."""
        return max(
            after - max([before, *(one for one in moments if before < one < after)])
            for before, after in pairwise(self._answered)
        )
