"""All exports of a server: its own metrics, and, while it is its turn, what is stored."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from scope_server.errors import StoreUnavailable
from scope_server.exports.contract import Source, Target
from scope_server.exports.http import Http, trusting
from scope_server.exports.influxdb.address import authorization, influxdb_address
from scope_server.exports.influxdb.target import InfluxDb
from scope_server.exports.minutes import Minutes
from scope_server.exports.otlp.address import otlp_address
from scope_server.exports.otlp.target import Otlp, sender_to
from scope_server.exports.own_metrics import OwnMetrics
from scope_server.exports.push import Counts, Push, Unkept
from scope_server.exports.spans import Spans
from scope_server.settings import Settings
from scope_server.store.exports.turn import Turn
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import Reader
from scope_server.store.schema.columns import StreamTable
from scope_wire.background import TaskGroup

_OLD_METRICS_S = 60.0  # then newer ones are sent in their place
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """Where exports read what is stored."""

    conninfo: str
    database: Database
    reader: Reader
    tables: Mapping[str, StreamTable]


class Exports:
    """Pushes what the settings say, which may be nothing.

    Args:
        collect: the server's metrics of now.

    Raises:
        InvalidSettings: a file with a secret or a certificate cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        stored: Stored,
        collect: Callable[[], Awaitable[Iterable[Metric]]],
    ) -> None:
        self._settings, self._stored = settings, stored
        self._targets = _targets(settings)
        own = OwnMetrics(collect, socket.gethostname())
        self._own = [Push(own, target, _OLD_METRICS_S) for target in self._targets]
        self._pushing: Sequence[Push] = ()

    def counts(self) -> Mapping[str, Counts]:
        """What became of each export that this server pushes now."""
        return {push.name: push.counts for push in (*self._own, *self._pushing)}

    async def run(self) -> None:
        """Pushes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for push in self._own:
                    group.create_task(push.run(Unkept()))
                if self._targets and self._settings.writes:
                    group.create_task(self._take())
                await asyncio.get_running_loop().create_future()
        finally:
            for target in self._targets:
                await target.close()

    async def _take(self) -> None:
        """Pushes what is stored, whenever it is this server's turn."""
        while True:
            try:
                async with Turn(self._stored.conninfo) as turn:
                    _log.info("this server pushes what is stored")
                    self._pushing = self._pushes()
                    async with TaskGroup() as group:
                        group.create_task(turn.watch())
                        for push in self._pushing:
                            group.create_task(push.run(turn))
            except* StoreUnavailable as errors:
                _log.info("this server pushes no more", extra={"reason": str(errors.exceptions[0])})
            finally:
                self._pushing = ()

    def _pushes(self) -> list[Push]:
        """Of everything that is stored to every target that takes it."""
        stored, most = self._stored, self._settings.export_series
        found = []
        for target in self._targets:
            sources: list[Source] = [Minutes(stored.database, stored.tables, most)]
            if isinstance(target, Otlp):
                spanned = (stored.tables[name] for name in sorted(stored.tables))
                sources += [
                    Spans(stored.reader, table, stored.tables) for table in spanned if table.described.shown.span
                ]
            found += [Push(source, target) for source in sources]
        return found


def _targets(settings: Settings) -> list[Target]:
    targets: list[Target] = []
    if settings.otlp:
        at = otlp_address(settings.otlp)
        targets.append(Otlp(sender_to(at, settings.otlp_ca_cert, settings.otlp_headers_file)))
    if settings.influxdb:
        url, secret = influxdb_address(settings.influxdb), settings.influxdb_secret()
        headers = authorization(url, secret) if secret else {}
        targets.append(InfluxDb(Http(headers, trusting(settings.influxdb_ca_cert, "influxdb_ca_cert")), url))
    return targets
