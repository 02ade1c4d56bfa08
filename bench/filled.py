"""A server whose store has rows of a day: of a fleet's syscalls, opens, execs, and CUDA launches with stacks."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from scope_catalogue.catalogue import streams
from scope_cli.bench_fleet.server import FleetServer
from scope_cli.bench_store.fill import Filler
from scope_cli.bench_store.load import Load
from scope_server.store.schema.tables import Tables

_MACHINES = 50
_DAYS = 1.0


@dataclass(frozen=True)
class Filled:
    """The server, a folder for what it is asked for, and the time that its rows span, as the API takes it."""

    server: FleetServer
    folder: Path
    since: str
    until: str


@contextmanager
def filled_server(rows: int) -> Iterator[Filled]:
    """A server that runs, with this many rows."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, FleetServer(Path(folder), 1) as server:
        end_ns = time.time_ns()
        load = Load(rows, machines=_MACHINES, days=_DAYS, late=0.05, end_ns=end_ns)
        filler = Filler(server.conninfo, Tables(streams().values()), load)
        filler.fill(load, lambda _: None)
        filler.close()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        until = datetime.fromtimestamp(end_ns / 1e9, UTC)
        yield Filled(server, Path(folder), _shown(until - timedelta(days=_DAYS)), _shown(until))


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
