"""`scope bench`: measures SCOPE itself."""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_RATIO = 0.85
_MOST_STATES = 1_000_000
_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]"}


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("bench", help="measure SCOPE itself")
    what = parser.add_subparsers(metavar="WHAT", required=True)
    store = what.add_parser(
        "store",
        help="fill a database like agents do, and measure typical queries",
        epilog="Without --database, creates its own PostgreSQL, and removes it afterwards.",
    )
    store.add_argument(
        "--rows", type=_count, default=5_000_000, metavar="N", help="number of rows (default: 5,000,000)"
    )
    store.add_argument(
        "--days", type=float, default=3.0, metavar="D", help="number of days over which rows are spread (default: 3)"
    )
    store.add_argument("--machines", type=_count, default=50, metavar="M", help="number of machines (default: 50)")
    store.add_argument(
        "--late",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of batches that arrive up to 6 h late (default: 0.05)",
    )
    store.add_argument(
        "--states",
        type=int,
        metavar="N",
        help="number of states of unfreed memory (default: a tenth of the rows, at most 10⁶)",
    )
    store.add_argument(
        "--repeats", type=_count, default=20, metavar="N", help="how often each question is asked (default: 20)"
    )
    store.add_argument("--database", metavar="CONNINFO", help="an empty database to fill, a libpq connection string")
    store.add_argument(
        "--layout", choices=("blocks", "hypertables"), default="blocks", help="how rows lie (default: blocks)"
    )
    store.add_argument("--dir", type=Path, metavar="DIR", help="create PostgreSQL in this directory")
    store.add_argument("--keep", action="store_true", help="keep the PostgreSQL in --dir afterwards")
    store.add_argument("--json", action="store_true", help="as JSON")
    store.set_defaults(run=run_store)
    fleet = what.add_parser(
        "fleet",
        help="connect many agents to a server, and measure what they cost and how they return after its restart",
        epilog="Creates its own PostgreSQL, server and agents, and removes them afterwards. The agents load no probe.",
    )
    fleet.add_argument("--agents", type=_count, default=1000, metavar="N", help="number of agents (default: 1,000)")
    fleet.add_argument(
        "--rate", type=_count, metavar="R", help="have up to 200 of them record R events/s each, and measure the delay"
    )
    fleet.add_argument(
        "--seconds", type=_count, default=30, metavar="S", help="duration of each measurement (default: 30)"
    )
    fleet.add_argument(
        "--redis",
        type=_redis,
        default="",
        metavar="URL",
        help="one empty Redis server: the server only receives, and others write",
    )
    fleet.add_argument(
        "--writers", type=_count, default=2, metavar="N", help="with --redis, how many others (default: 2)"
    )
    fleet.add_argument("--json", action="store_true", help="as JSON")
    fleet.set_defaults(run=run_fleet)


def run_fleet(arguments: argparse.Namespace) -> int:
    """Prints a table of measured values and goals; status 1 if a goal was missed."""
    import asyncio
    import logging

    from rich.console import Console

    from scope_cli.bench_fleet.run import as_json, measured
    from scope_cli.printable import print_json
    from scope_cli.terminal import RowTable

    logging.getLogger("scope_agentd").setLevel(logging.ERROR)  # each agent says that it has lost the server
    with (
        tempfile.TemporaryDirectory(prefix="scope") as folder,
        Console(stderr=True).status("measuring") as status,
    ):
        lines = asyncio.run(
            measured(
                Path(folder),
                arguments.agents,
                arguments.rate,
                idle_s=arguments.seconds,
                tell=status.update,
                redis=arguments.redis,
                writers=arguments.writers,
            )
        )
    if arguments.json:
        print_json(as_json(lines))
    else:
        table = RowTable("measured", "figure", "goal", "")
        for line in lines:
            goal, mark = ("", "") if line.met is None else (f"≤ {line.goal:g}", _MARKS[line.met])
            table.add_row(line.what, f"{line.value:,.3g} {line.unit}", goal, mark)
        Console().print(table)
    return 1 if any(line.met is False for line in lines) else 0


def run_store(arguments: argparse.Namespace) -> int:
    """Prints a table of measured values and goals; status 1 if a goal was missed."""
    import asyncio
    import time
    from dataclasses import asdict

    import psycopg
    from rich.console import Console

    from scope_catalogue.catalogue import streams
    from scope_cli.bench_store.costs import sizes, written
    from scope_cli.bench_store.fill import Filler
    from scope_cli.bench_store.load import Load
    from scope_cli.bench_store.questions import ask_all
    from scope_cli.errors import UsageError
    from scope_cli.printable import print_json
    from scope_server.store.layout.choice import LAYOUTS
    from scope_server.store.schema.migrate import migrate
    from scope_server.store.schema.tables import Tables

    if arguments.keep and not arguments.dir:
        raise UsageError("--keep needs --dir")
    console = Console(stderr=True)
    states = arguments.states if arguments.states is not None else min(_MOST_STATES, arguments.rows // 10)
    load = Load(
        arguments.rows,
        machines=arguments.machines,
        days=arguments.days,
        late=arguments.late,
        end_ns=time.time_ns(),
        states=states,
    )
    tables = Tables(streams().values(), LAYOUTS[arguments.layout])
    with ExitStack() as cleanup, console.status("creating the database") as status:
        conninfo = arguments.database or _made(arguments, cleanup)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            migrate(connection, tables)
        filler = Filler(conninfo, tables, load)
        cleanup.callback(filler.close)
        began = time.monotonic()
        rows = filler.fill(load, lambda count: status.update(f"{count:,} rows"))
        seconds = time.monotonic() - began
        status.update("vacuum")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        stored = sizes(conninfo, tables.layout)
        answered = asyncio.run(
            ask_all(filler, load, lambda question: status.update(f"query: {question}"), arguments.repeats)
        )
        status.update("comparing the writer with a bare ingest")
        costs = written(filler, load)
    found: dict[str, Any] = {
        "rows": rows,
        "filled_s": seconds,
        "questions": [asdict(one) | {"met": one.met} for one in answered],
        "stored": [asdict(one) | {"bytes_a_row": one.bytes / one.rows if one.rows else None} for one in stored],
        "writer": asdict(costs) | {"goal_of_bare": _RATIO, "met": costs.of_bare >= _RATIO},
    }
    if arguments.json:
        print_json(found)
    else:
        _print(Console(), found)
    return 0 if found["writer"]["met"] and all(one["met"] for one in found["questions"]) else 1


def _made(arguments: argparse.Namespace, cleanup: ExitStack) -> str:
    import shutil

    from scope_server.store.postgres import PrivatePostgres

    folder = arguments.dir or Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="scope")))
    if arguments.dir and not arguments.keep:
        cleanup.callback(shutil.rmtree, folder / "postgres", ignore_errors=True)
    return cleanup.enter_context(PrivatePostgres(folder / "postgres")).conninfo()


def _print(console: "Console", found: dict[str, Any]) -> None:
    from scope_cli.terminal import RowTable

    console.print(f"{found['rows']:,} rows stored in {found['filled_s']:,.0f} s")
    table = RowTable("question", "p50 ms", "p95 ms", "goal", "")
    for one in found["questions"]:
        p50, p95, goal = (one[f"{name}_ms"] for name in ("p50", "p95", "goal"))
        table.add_row(one["question"], f"{p50:.1f}", f"{p95:.1f}", f"≤ {goal:g}", _MARKS[one["met"]])
    console.print(table)
    table = RowTable("stored", "rows", "bytes per row")
    for one in found["stored"]:
        size = f"{one['bytes_a_row']:.2f}" if one["rows"] else f"{one['bytes']:,} bytes"
        table.add_row(one["what"], f"{one['rows']:,}", size)
    console.print(table)
    table = RowTable("writing", "figure", "goal", "")
    writer = found["writer"]
    table.add_row(
        "rows/s of the writer / bare adbc_ingest", f"{writer['of_bare']:.2f}", f"≥ {_RATIO}", _MARKS[writer["met"]]
    )
    table.add_row("rows/s of the writer", f"{writer['rows_a_second']:,.0f}", "", "")
    table.add_row("CPU of the server, with decoding, µs per row", f"{writer['cpu_us']:.2f}", "", "")
    if writer["postgres_cpu_us"] is not None:
        table.add_row("CPU of PostgreSQL, with vacuum, µs per row", f"{writer['postgres_cpu_us']:.2f}", "", "")
    console.print(table)


def _redis(text: str) -> str:
    from scope_server.redis.address import address
    from scope_wire.errors import InvalidSetting

    try:
        found = address(text)
    except InvalidSetting as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found.kind != "one":
        raise argparse.ArgumentTypeError(
            "must be one server, whose CPU time is measured: redis://, rediss:// or unix://"
        )
    return text


def _count(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number <= 0:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return number
