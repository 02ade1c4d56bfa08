"""What `scope up` shows: its parts; tasks with rates, losses and cost; the busiest programs."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Group

from scope_cli.api import Node, Server, Storage, Task
from scope_cli.busiest import Busiest
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_cli.flag import Flag
from scope_cli.nodes import remarks
from scope_cli.storage import storage_line
from scope_cli.tasks import task_lines, task_table
from scope_cli.terminal import plain

RANKED_EVERY_S = 5.0

Rates = dict[tuple[str, str], float]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Answers:
    """What the API said last."""

    tasks: Sequence[Task] = ()
    nodes: Sequence[Node] = ()
    busiest: Busiest | None = None
    rates: Rates = field(default_factory=dict)
    server: Server | None = None
    storage: Storage | None = None
    problem: str = ""  # why there is no newer answer


class Overview:
    """Shows what the API answered last: one thread asks, another renders.

    Args:
        client: of the API.
        headline: the first line.
        parts: how each part of the stack stands, a line a part.
    """

    def __init__(self, client: Client, headline: str, parts: Callable[[], Sequence[str]]) -> None:
        self._client, self._headline, self._parts = client, headline, parts
        self._answers = _Answers()
        self._before: dict[tuple[str, str], tuple[float, int]] = {}
        self._ranked_at = float("-inf")

    def keep_asking(self, stop: Flag, every_s: float) -> None:
        """Asks the API again and again, until `stop` is set."""
        while not stop.is_set():
            self.ask()
            stop.wait(every_s)

    def ask(self) -> None:
        """Asks the API once. What it does not answer is shown as it was, with the reason."""
        try:
            tasks = self._client.get_tasks(state="active")["tasks"]
            self._answers = _Answers(
                tasks,
                self._client.get_nodes()["nodes"],
                self._busiest(),
                self._rates(tasks),
                self._client.get_server(),
                self._client.get_storage(),
            )
        except CommandError as error:
            self._stay(str(error))
        except Exception as error:  # a thread that ends would leave a view that looks alive
            problem = f"unexpected answer ({type(error).__name__}: {error})"
            if problem != self._answers.problem:
                _log.exception("overview failed")
            self._stay(problem)

    def _stay(self, problem: str) -> None:
        self._answers = replace(self._answers, rates={}, server=None, problem=problem)

    def render(self) -> Group:
        """The view as of now; asks nobody."""
        answers = self._answers
        return Group(
            plain(self._headline),
            *(plain(f"  {line}", "red" if " ended " in line else "dim") for line in self._parts()),
            *(plain(f"  {line}", "bold red") for line in _problems(answers)),
            *(plain(f"  {node['hostname']}: {remark}") for node in answers.nodes for remark in remarks(node)),
            plain(""),
            task_table(answers.tasks, answers.rates),
            *task_lines(answers.tasks),
            *([plain(storage_line(answers.storage), "dim")] if answers.storage else []),
            plain(""),
            *([answers.busiest.render()] if answers.busiest else []),
            plain(""),
            plain("Ctrl-C ends everything; recorded data is kept", "dim"),
        )

    def _busiest(self) -> Busiest | None:
        if time.monotonic() - self._ranked_at < RANKED_EVERY_S:
            return self._answers.busiest
        found = Busiest.of(self._client)
        self._ranked_at = time.monotonic()
        return found

    def _rates(self, tasks: Sequence[Task]) -> Rates:
        now, rates = time.monotonic(), {}
        for task in tasks:
            for stream in task["streams"]:
                key = (task["task_id"], stream["stream"])
                moment, emitted = self._before.get(key, (now, stream["emitted"]))
                if now > moment:
                    rates[key] = (stream["emitted"] - emitted) / (now - moment)
                self._before[key] = (now, stream["emitted"])
        return rates


def _problems(answers: _Answers) -> list[str]:
    if answers.problem:
        return [f"as it was when the server answered last: {answers.problem}"]
    server = answers.server
    if server is None or server["healthy"]:
        return []
    return [f"database: {server['database']}", f"ingest: {server['ingest']}"]
