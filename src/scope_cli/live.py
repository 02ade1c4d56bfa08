"""A trace as a table that redraws in place."""

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from scope_bpf.account import Account
from scope_bpf.catalogue import Stream
from scope_cli.aggregate import Aggregate
from scope_cli.quantities import quantity

SHOWN_GROUPS = 20
_UNITS = ("_ns", "_bytes", "_percent", "_celsius", "_watts", "_mhz")
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def render(aggregates: Mapping[str, Aggregate], accounts: Mapping[str, Account], seconds: float, height: int) -> Group:
    """Every stream that had rows, with as many lines as fit in `height`."""
    busy = [aggregate for aggregate in aggregates.values() if aggregate.rows]
    lines = max(3, min(SHOWN_GROUPS, height // max(1, len(busy)) - 4))
    parts: list[Table | Text] = [_headline(aggregates, accounts, seconds)]
    for aggregate in busy:
        parts += [Text(f"\n{aggregate.stream.name}: {aggregate.stream.meaning}", "italic"), _table(aggregate, lines)]
    return Group(*parts)


def _headline(aggregates: Mapping[str, Aggregate], accounts: Mapping[str, Account], seconds: float) -> Text:
    rows = sum(aggregate.rows for aggregate in aggregates.values())
    lost = sum(sum(account.lost.values()) for account in accounts.values())
    text = Text(f"{rows:,} rows in {seconds:.1f} s, {rows / max(seconds, 0.001):,.0f}/s, ")
    return text.append(f"{lost:,} lost", "bold red") if lost else text.append("none lost", "green")


def _table(aggregate: Aggregate, lines: int) -> Table:
    stream = aggregate.stream
    table = Table(box=None, padding=(0, 2, 0, 0))
    if not stream.live.by:
        return _latest(table, aggregate, lines)
    units = {name: column.unit for name, column in stream.described().items()}
    for name in stream.live.by:
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    counted = [] if stream.gauge else ["rows", *(["failed"] if stream.live.failures else [])]
    numbers = [*counted, *stream.live.totals]
    for name in [*numbers, *(_QUANTILES if stream.live.quantiles else ()), *([] if stream.gauge else ["share"])]:
        table.add_column(_headed(name), justify="right", no_wrap=True)
    whole = sum(totals[-1] or 0 for totals in aggregate.totals.values()) or 1
    for group, totals in aggregate.top(lines):
        cells = [quantity(total, units.get(name, "")) for name, total in zip(numbers, totals, strict=True)]
        if stream.live.quantiles:
            unit = units[stream.live.quantiles]
            cells += [quantity(aggregate.quantile(group, share), unit) for share in _QUANTILES.values()]
        if not stream.gauge:
            cells.append(f"{totals[-1] / whole:.0%}")
        shown = group[: len(stream.live.by)]
        table.add_row(*("-" if key is None else str(key) for key in shown), *cells)
    hidden = len(aggregate.totals) - lines
    if hidden > 0:
        table.caption = f"and {hidden:,} more"
        table.caption_justify = "left"
    return table


def _headed(name: str) -> str:
    """The column's name without its unit, which the cells have."""
    return name.removesuffix(next((unit for unit in _UNITS if name.endswith(unit)), ""))


def _latest(table: Table, aggregate: Aggregate, lines: int) -> Table:
    stream: Stream = aggregate.stream
    units = {name: column.unit for name, column in stream.described().items()}
    for name in stream.live.latest:
        table.add_column(_headed(name), overflow="ellipsis", no_wrap=True)
    for row in list(aggregate.latest)[-lines:]:
        cells = []
        for name in stream.live.latest:
            value, unit = row[name], units[name]
            cells.append(quantity(value, unit) if unit else _plain(value))
        table.add_row(*cells)
    return table


def _plain(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(item) for item in value).replace("\n", "\\n")
    return "-" if value is None else str(value)
