"""A trace as a table that redraws in place."""

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from scope_bpf.capture.account import Account
from scope_bpf.catalogue.stream import Stream
from scope_cli.aggregate import Aggregate
from scope_cli.quantities import quantity

SHOWN_GROUPS = 20
WIDEST = 60  # of a text
_UNITS = ("_ns", "_bytes", "_percent", "_celsius", "_watts", "_mhz")
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def render(aggregates: Sequence[Aggregate], accounts: Mapping[str, Account], seconds: float, height: int) -> Group:
    """Every table that has something to show, with as many lines as fit in `height`."""
    busy = [aggregate for aggregate in aggregates if aggregate.latest or aggregate.top(1)]
    lines = max(3, min(SHOWN_GROUPS, height // max(1, len(busy)) - 4))
    parts: list[Table | Text] = [_headline(aggregates, accounts, seconds)]
    for aggregate in busy:
        meaning = aggregate.live.title or aggregate.stream.meaning
        parts += [Text(f"\n{aggregate.stream.name}: {meaning}", "italic"), _table(aggregate, lines)]
    return Group(*parts)


def _headline(aggregates: Sequence[Aggregate], accounts: Mapping[str, Account], seconds: float) -> Text:
    rows = sum(aggregate.rows for aggregate in aggregates if aggregate.live is aggregate.stream.live)
    lost = sum(sum(account.lost.values()) for account in accounts.values())
    text = Text(f"{rows:,} rows in {seconds:.1f} s, {rows / max(seconds, 0.001):,.0f}/s, ")
    return text.append(f"{lost:,} lost", "bold red") if lost else text.append("none lost", "green")


def _table(aggregate: Aggregate, lines: int) -> Table:
    stream, live = aggregate.stream, aggregate.live
    table = Table(box=None, padding=(0, 2, 0, 0))
    if not live.by:
        return _latest(table, aggregate, lines)
    units = {name: column.unit for name, column in stream.described().items()}
    for name in live.by:
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=WIDEST)
    counted = [] if stream.gauge else ["rows", *(["failed"] if live.failures else [])]
    numbers = [*counted, *live.totals]
    further = [*(_QUANTILES if live.quantiles else ()), *([live.rate] if live.rate else [])]
    for name in [*numbers, *further, *([] if stream.gauge else ["share"])]:
        table.add_column(_headed(name), justify="right", no_wrap=True)
    whole = sum(totals[-1] or 0 for totals in aggregate.totals.values()) or 1
    for group, totals in aggregate.top(lines):
        cells = [quantity(total, units.get(name, "")) for name, total in zip(numbers, totals, strict=True)]
        if live.quantiles:
            unit = units[live.quantiles]
            cells += [quantity(aggregate.quantile(group, share), unit) for share in _QUANTILES.values()]
        if live.rate:
            cells.append(quantity(aggregate.rate(group), units[live.rate]))
        if not stream.gauge:
            cells.append(f"{totals[-1] / whole:.0%}")
        shown = map(_shown, live.by, group)
        table.add_row(*shown, *cells)
    hidden = len(aggregate.totals) - lines
    if hidden > 0:
        table.caption = f"and {hidden:,} more"
        table.caption_justify = "left"
    return table


def _shown(name: str, key: object) -> str:
    if key is None:
        return "-"
    if name != "stack":
        return str(key)
    # A line has room for the begin: for who did it, without the build ids of code that has no names.
    return " < ".join(frame.partition(" [")[0] for frame in reversed(str(key).split(";")))


def _headed(name: str) -> str:
    """The column's name without its unit, which the cells have."""
    return name.removesuffix(next((unit for unit in _UNITS if name.endswith(unit)), ""))


def _latest(table: Table, aggregate: Aggregate, lines: int) -> Table:
    stream: Stream = aggregate.stream
    live = aggregate.live
    units = {name: column.unit for name, column in stream.described().items()}
    for name in live.latest:
        table.add_column(_headed(name), overflow="ellipsis", no_wrap=True)
    for row in list(aggregate.latest)[-lines:]:
        cells = []
        for name in live.latest:
            value, unit = row[name], units[name]
            cells.append(quantity(value, unit) if unit else _plain(value))
        table.add_row(*cells)
    return table


def _plain(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(item) for item in value).replace("\n", "\\n")
    return "-" if value is None else str(value)
