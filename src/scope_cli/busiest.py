"""Which programs use the CPUs and wait for them, and what is called most: from rollups, in which every row counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.columns import Columns
from rich.console import Group, RenderableType

from scope_cli.api import Group as Totals
from scope_cli.client import Client
from scope_cli.terminal import RowTable, plain
from scope_views.quantities import duration

SHOWN = 8
_WINDOW = timedelta(minutes=1)  # and the part of a minute before, because rollups have whole minutes


@dataclass(frozen=True)
class _Ranking:
    """What is ranked: groups, by their count or by the sum of a column with times."""

    title: str
    stream: str
    by: tuple[str, ...]
    cell: str = "count"


_RANKINGS = (
    _Ranking("time on a CPU", "sched_summary", ("comm",), "sum(on_cpu_ns)"),
    _Ranking("waiting for a CPU", "sched_process_summary", ("comm",), "sum(run_queue_ns)"),
    _Ranking("syscalls by number", "syscall_summary", ("comm", "name")),
)


@dataclass(frozen=True)
class Busiest:
    """The first groups of each ranking.

    Attributes:
        since: when the time that was added up begins.
    """

    since: datetime
    groups: Sequence[Sequence[Totals]]

    @classmethod
    def of(cls, client: Client) -> "Busiest":
        """Asks the server.

        Raises:
            CommandError: it does not answer.
        """
        since = (datetime.now(UTC) - _WINDOW).isoformat()
        answers = [
            client.get_aggregates(one.stream, since=since, by=",".join(one.by), cells=one.cell, top=SHOWN)
            for one in _RANKINGS
        ]
        return cls(datetime.fromisoformat(answers[0]["since"]), [answer["groups"] for answer in answers])

    def render(self) -> RenderableType:
        """A table for each ranking, side by side if there is room."""
        tables = [_table(ranking, groups) for ranking, groups in zip(_RANKINGS, self.groups, strict=True)]
        title = f"busiest programs since {self.since.astimezone():%H:%M}"
        return Group(plain(title, "italic"), Columns(tables, padding=(1, 4)))


def _table(ranking: _Ranking, groups: Sequence[Totals]) -> RowTable:
    table = RowTable(*("syscall" if name == "name" else name for name in ranking.by), padding=(0, 2, 0, 0))
    table.add_column(ranking.title, justify="right")
    for group in groups:
        total = group["values"][ranking.cell] or 0
        value = f"{total:,}" if ranking.cell == "count" else duration(total)
        table.add_row(*(group["key"][name] or "-" for name in ranking.by), value)
    return table
