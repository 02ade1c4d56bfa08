"""The server's metrics. Counters start at 0 with the server and never decrease."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scope_server.api.context import BACKLOG, DATABASE, DISK, EXPORTS, LATENCIES, REGISTER, RETENTION, SESSIONS, WRITERS
from scope_server.api.routing.reads import SOURCES
from scope_server.errors import StoreUnavailable
from scope_server.exports.push import Counts
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.writers import Writers
from scope_server.session.sessions import Sessions
from scope_server.store.reading.replicas import Replicas
from scope_server.store.retention import Disk, Reason, Retention
from scope_wire.refused.refusals import Reason as Refusal


async def registry(application: web.Application) -> CollectorRegistry:
    """The metrics of now. Without the database, only the server's own."""
    try:
        (stored,) = await application[DATABASE].fetch("store_metrics")
    except StoreUnavailable:
        stored = {}
    found = CollectorRegistry()
    found.register(
        _Snapshot(
            [
                *_live(application[SESSIONS], application[BACKLOG], application[WRITERS]),
                _refusals(application[REGISTER].refusals.counts),
                *_storage(application[DISK], application[RETENTION]),
                *_exports(application[EXPORTS].counts()),
                *_stored(stored),
                *_replicas(application[SOURCES].replicas),
            ]
        )
    )
    found.register(application[LATENCIES])
    ProcessCollector(registry=found)
    return found


async def collected(application: web.Application) -> Iterable[Metric]:
    """The same, to be sent elsewhere."""
    return (await registry(application)).collect()


class _Snapshot(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _live(sessions: Sessions, backlog: Backlog, writers: Writers) -> Iterator[Metric]:
    counts = backlog.counts
    yield GaugeMetricFamily("scope_server_sessions", "Connected agents", len(sessions.all()))
    yield CounterMetricFamily("scope_server_sessions_opened", "Sessions opened", sessions.opened)
    yield CounterMetricFamily(
        "scope_server_sessions_postponed",
        "Agents told to come again, because too many connected at the same time",
        sessions.entrance.sent_away,
    )
    yield CounterMetricFamily(
        "scope_server_conflicts", "Agents refused because another has the same id", sessions.refused
    )
    yield GaugeMetricFamily(
        "scope_server_held_bytes", "Bytes of decompressed records waiting to be written", backlog.held_bytes
    )
    yield GaugeMetricFamily(
        "scope_server_held_limit_bytes", "Bytes at which the server stops reading from agents", backlog.limit
    )
    yield GaugeMetricFamily(
        "scope_server_oldest_record_seconds",
        "How long the oldest record waiting to be written has waited",
        backlog.oldest_s,
    )
    yield GaugeMetricFamily("scope_server_writers", "Threads that write", writers.count)
    yield GaugeMetricFamily(
        "scope_server_writers_stuck", "Threads that write and do not progress", len(writers.troubles())
    )
    records, events = counts.stored
    yield CounterMetricFamily("scope_server_stored_records", "Stored records", records)
    yield CounterMetricFamily("scope_server_stored_events", "Events of stored records", events)
    yield _by_code("scope_server_refused_records", "Refused records", counts.refused)
    yield _by_code("scope_server_deferred_records", "Records answered with LATER", counts.deferred)
    yield CounterMetricFamily(
        "scope_server_redated_batches",
        "Batches timed by the server's clock, because the machine's is implausible",
        counts.redated,
    )


def _storage(disk: Disk, retention: Retention) -> Iterator[Metric]:
    for name, meaning, value in (
        (
            "storage_bytes",
            "Bytes of stored rows, related data and PostgreSQL's write-ahead log",
            retention.storage.bytes,
        ),
        ("storage_limit_bytes", "Limit of stored bytes; beyond, the oldest days are deleted", disk.limit_bytes),
        ("storage_free_bytes", "Free bytes on the database's disk", disk.free_bytes),
        ("storage_floor_bytes", "Minimum free bytes; below, nothing is stored", disk.floor_bytes),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"scope_server_{name}", meaning, float(value))
    days = CounterMetricFamily("scope_server_dropped_days", "Deleted days", labels=["reason"])
    for reason in Reason:
        days.add_metric([reason.value], retention.dropped_days[reason.value])
    yield days
    yield CounterMetricFamily("scope_server_dropped_rows", "Rows of deleted days", retention.dropped_rows)
    yield CounterMetricFamily("scope_server_dropped_bytes", "Bytes of deleted days", retention.dropped_bytes)


def _exports(counts: Mapping[str, Counts]) -> Iterator[Metric]:
    for name, meaning, values in (
        ("items", "Points and spans that were pushed and acknowledged", {n: c.sent for n, c in counts.items()}),
        ("refused_items", "Points and spans that the target refused", {n: c.refused for n, c in counts.items()}),
        (
            "given_up_items",
            "Minutes, rows and points that were left out, because the target did not take them for too long",
            {n: c.given_up for n, c in counts.items()},
        ),
        ("failures", "Pushes that failed and are tried again", {n: c.failures for n, c in counts.items()}),
    ):
        family = CounterMetricFamily(f"scope_server_export_{name}", meaning, labels=["export"])
        for export, value in values.items():
            family.add_metric([export], value)
        yield family
    behind = GaugeMetricFamily(
        "scope_server_export_behind_seconds", "How long ago an export had nothing left to push", labels=["export"]
    )
    for export, one in counts.items():
        behind.add_metric([export], one.behind_s)
    yield behind


def _replicas(replicas: Replicas) -> Iterator[Metric]:
    up = GaugeMetricFamily("scope_server_replica_up", "1 if the replica answers queries", labels=["replica"])
    age = GaugeMetricFamily(
        "scope_server_replica_age_seconds", "How old the data of the replica may be", labels=["replica"]
    )
    answers = CounterMetricFamily("scope_server_replica_answers", "Answers of the replica", labels=["replica"])
    failures = CounterMetricFamily(
        "scope_server_replica_failures",
        "Answers that the primary gave because the replica, which was asked first, could not",
        labels=["replica"],
    )
    for each in replicas.all:
        up.add_metric([each.name], 0.0 if replicas.trouble(each) else 1.0)
        if each.age_s is not None:
            age.add_metric([each.name], each.age_s)
        answers.add_metric([each.name], each.answers)
        failures.add_metric([each.name], each.failures)
    yield from (up, age, answers, failures)


def _refusals(counts: Mapping[Refusal, int]) -> Metric:
    family = CounterMetricFamily("scope_server_refused_peers", "Refused peers", labels=["reason"])
    for reason in Refusal:
        family.add_metric([reason.value], counts.get(reason, 0))
    return family


def _by_code(name: str, meaning: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["code"])
    for code, count in counts.items():
        family.add_metric([code], count)
    return family


def _stored(row: Mapping[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily("scope_server_database_up", "1 if the database answers", 1.0 if row else 0.0)
    for name, meaning in (
        ("machines_away", "Members that did not report for 5 minutes"),
        ("quarantined_records", "Quarantined records, kept or not"),
        ("quarantined_bytes", "Bytes of kept quarantined records"),
        ("partitions", "Partitions (one per day) of rows and of the catalogue of batches"),
    ):
        if row:
            yield GaugeMetricFamily(f"scope_server_{name}", meaning, float(row[name]))
